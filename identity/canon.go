package identity

import (
	"strings"
	"unicode/utf8"
)

// maxPath bounds a path, in bytes.
const maxPath = 8192

// Canonical returns the canonical form of an escaped path, which all doors
// share. Two paths that some upstream takes for one have one form, so that
// nobody gets a second counter by writing his path another way:
//
//   - A character that may stand in a path as it is, does: %6cogin is login. The
//     rest is %XX in upper case. %25 stays, as a path is decoded once.
//   - %2F, \ and %5C are slashes, unless PathOptions.KeepEncodedSlash. With it,
//     a path that has them must have escaped all else that RFC 3986 wants to be.
//   - Parameters of a segment, from its first semicolon on, are cut.
//   - Empty segments and dot segments are resolved, a slash at the end is cut:
//     //a/./b/../c/ is /a/c. There is nothing above the root.
//   - Case stays, as /Login and /login are two resources on most upstreams,
//     unless PathOptions.IgnoreCase.
//
// A query or an absolute form's scheme and host are not part of it. What holds
// a control character, a broken escape or what is not UTF-8, is longer than
// 8192 bytes or does not begin with a slash, is refused with an *Error.
func Canonical(path string, opt PathOptions) (string, error) {
	if opt.isCanonical(path) {
		return path, nil
	}
	b, err := opt.appendPath(nil, path)
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// allowedByte tells of each byte whether it may stand in a canonical path as it
// is: the unreserved characters and the sub-delimiters, colon and at, of RFC
// 3986 §3.3, without the semicolon, which begins a parameter.
var allowedByte = newByteSet(func(c byte) bool { return isAlnum(c) || strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0 })

// isCanonical reports whether path is sure to be its own canonical form. It
// knows the common ones, without escapes.
func (o PathOptions) isCanonical(path string) bool {
	if path == "" || path[0] != '/' || len(path) > maxPath {
		return false
	}
	if path == "/" {
		return true
	}
	from := 1 // of the segment
	for i := 1; i < len(path); i++ {
		c := path[i]
		if allowedByte[c] {
			if o.IgnoreCase && c >= 'A' && c <= 'Z' {
				return false
			}
			continue
		}
		if c != '/' || isDots(path[from:i]) {
			return false
		}
		from = i + 1
	}
	return !isDots(path[from:])
}

// isDots reports whether a segment is empty, . or .., which no canonical path
// holds.
func isDots(segment string) bool { return segment == "" || segment == "." || segment == ".." }

// appendPath appends the canonical form of path to b.
func (o PathOptions) appendPath(b []byte, path string) ([]byte, error) {
	if len(path) > maxPath {
		return b, errPathLong
	}
	path, _, _ = strings.Cut(path, "?")
	if path == "" {
		return append(b, '/'), nil
	}
	if path[0] != '/' && path[0] != '\\' {
		return b, errPathForm
	}
	root := len(b)
	segment := root // begins behind b[segment], its slash
	b = append(b, '/')
	cut := false // in the parameters of the segment
	// Whether a slash was kept as %2F, and whether a character was not escaped
	// that must be. A proxy that escapes the latter may make slashes of the
	// former, as net/http's does: what the upstream gets then cannot be told.
	var kept, loose bool
	for i := 1; i < len(path); {
		c, size, enc := path[i], 1, false
		if c == '%' {
			if c, enc = unescapeByte(path[i:]); !enc {
				return b, errPathEscape
			}
			size = 3
		}
		switch {
		case c < ' ' || c == 0x7f:
			return b, errPathControl
		case c >= utf8.RuneSelf:
			var buf [utf8.UTFMax]byte
			char, n := runeAt(buf[:0], path[i:])
			if n == 0 {
				return b, errPathEncoding
			}
			for j := 0; j < len(char) && !cut; j++ {
				b = appendEscape(b, char[j])
			}
			loose = loose || !enc
			i += n
			continue
		case c == '/' && !enc, (c == '/' || c == '\\') && !o.KeepEncodedSlash:
			b, segment = endSegment(b, root, segment)
			cut = false
		case c == ';':
			cut = true
		case cut:
		case allowedByte[c]:
			if o.IgnoreCase && c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			b = append(b, c)
		default:
			b = appendEscape(b, c)
		}
		kept = kept || enc && (c == '/' || c == '\\') && o.KeepEncodedSlash
		loose = loose || !enc && c != '/' && c != ';' && c != '[' && c != ']' && !allowedByte[c]
		i += size
	}
	if kept && loose {
		return b, errPathLoose
	}
	b, _ = endSegment(b, root, segment)
	if len(b) > root+1 {
		b = b[:len(b)-1] // the slash of the segment that does not follow
	}
	return b, nil
}

// endSegment ends the segment behind b[at], a slash, in the path that begins
// at b[root]. It returns b with the slash of the next segment at its end, and
// where that is.
func endSegment(b []byte, root, at int) ([]byte, int) {
	switch string(b[at+1:]) {
	case "", ".":
		b = b[:at+1]
	case "..":
		b = b[:at]
		for len(b) > root && b[len(b)-1] != '/' {
			b = b[:len(b)-1]
		}
		if len(b) == root {
			b = append(b, '/')
		}
	default:
		b = append(b, '/')
	}
	return b, len(b) - 1
}

// appendEscape appends c as %XX.
func appendEscape(b []byte, c byte) []byte {
	const upperHex = "0123456789ABCDEF"
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// runeAt appends to char the bytes of the first character of s, escaped or not. It
// returns how many bytes of s that takes, 0 if it is no character: an overlong form, a
// surrogate, the rest of one.
func runeAt(char []byte, s string) (_ []byte, n int) {
	for n < len(s) && len(char) < utf8.UTFMax {
		c, size, ok := s[n], 1, true
		if c == '%' {
			if c, ok = unescapeByte(s[n:]); !ok {
				return nil, 0
			}
			size = 3
		}
		n += size
		if char = append(char, c); utf8.FullRune(char) {
			if r, size := utf8.DecodeRune(char); size == len(char) && (r != utf8.RuneError || size == 3) {
				return char, n
			}
			return nil, 0
		}
	}
	return nil, 0
}
