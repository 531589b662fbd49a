package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPath bounds a path, in bytes.
const maxPath = 8192

// Canonical returns the canonical form of an escaped path, which all doors
// share: one path has one form, so that nobody gets a second counter by writing
// it another way.
//
//   - A character that may stand in a path as it is, does: %6cogin is login. The
//     rest is %XX in upper case. %25 stays, as a path is decoded once. Whatever is
//     counted by the path counts for who decodes less of it too.
//   - A slash at the end is cut.
//   - Case stays, as /Login and /login are two resources on most upstreams,
//     unless PathOptions.IgnoreCase.
//
// What servers read in more than one way is refused with an *Error, as the
// upstream may read another path than the one that was counted: a segment that
// some server takes for . or .., two slashes at the start, and what
// PathOptions.Allow does not list. So is what is no path: a control character, a
// broken escape, what is not UTF-8, is longer than 8192 bytes or does not begin
// with a slash. A query or an absolute form's scheme and host are not part of it.
func Canonical(path string, opt PathOptions) (string, error) {
	if opt.isCanonical(path) {
		return path, nil
	}
	allowed, err := libertiesOf(opt.Allow)
	if err != nil {
		return "", err
	}
	b, used, err := opt.appendPath(nil, path, nil)
	if err == nil {
		err = used.refusedBut(allowed)
	}
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
		if c != '/' || isDotSegment(path[from:i]) {
			return false
		}
		from = i + 1
	}
	return !isDotSegment(path[from:])
}

// isDotSegment reports whether a segment is empty, . or .., which no canonical path
// holds.
func isDotSegment(segment string) bool { return segment == "" || segment == "." || segment == ".." }

// leaves are the bytes whose odd escapes routers leave that decode less of a path than
// all: as decodeURI of JavaScript does, as Fastify's, as RFC 3986 §6.2.2.2 has it, as
// Envoy's, and nothing, as those of Express and Koa. The last decodes all, and ignores the
// case of ASCII letters alone, as all do but Fastify's.
var leaves = [...]*byteSet{
	new(newByteSet(func(c byte) bool { return strings.IndexByte("$&+,=:@", c) >= 0 })),
	new(newByteSet(func(c byte) bool { return strings.IndexByte("$&+,=:@!'()*", c) >= 0 })),
	new(newByteSet(func(byte) bool { return true })),
	new(byteSet),
}

// bareByte tells of the bytes that browsers send as they are, see targetBytes.
var bareByte = newByteSet(func(c byte) bool { return allowedByte[c] || strings.IndexByte("[]{}|\\^`", c) >= 0 })

// isOddEscape reports whether an escape of c is needless, or in lower case: to a router that
// does not decode it the path is another.
func isOddEscape(c byte, escape string) bool {
	return bareByte[c] || strings.ContainsAny(escape, "abcdef")
}

// appendPath appends the canonical form of path to b, as it is where all is allowed
// that path makes use of. Odd escapes of bytes in left, nil for none, stay, in lower case,
// as no canonical path has them.
func (o PathOptions) appendPath(b []byte, path string, left *byteSet) (_ []byte, used liberties, err error) {
	if len(path) > maxPath {
		return b, 0, errPathLong
	}
	path, _, _ = strings.Cut(path, "?")
	if path == "" {
		return append(b, '/'), 0, nil
	}
	if path[0] != '/' {
		return b, 0, errPathForm
	}
	if len(path) > 1 && (path[1] == '/' || path[1] == '\\') {
		return b, 0, errPathHost // a URL parser takes what follows for a host
	}
	root := len(b)
	segment := root // begins behind b[segment], its slash
	b = append(b, '/')
	cut := false // in the parameters of the segment
	var part dots
	// A proxy that escapes what should have been escaped may make slashes of %2F, and
	// semicolons of %3B, as net/http's does: what its upstream gets then cannot be told.
	var kept, loose bool
	for i := 1; i < len(path); {
		c, size, enc := path[i], 1, false
		if c == '%' {
			if c, enc = unescapeByte(path[i:]); !enc {
				return b, 0, errPathEscape
			}
			size = 3
		}
		if !part.takeByte(c) {
			return b, 0, errPathDots
		}
		var buf [utf8.UTFMax]byte
		char := append(buf[:0], c)
		if c >= utf8.RuneSelf {
			if char, size = firstRune(buf[:0], path[i:]); size == 0 {
				return b, 0, errPathEncoding
			}
		}
		odd, cased := enc && !cut && isOddEscape(c, path[i:i+size]), false
		if c >= utf8.RuneSelf && o.IgnoreCase && !cut {
			char, cased = lowerRune(char, left == nil || left == leaves[0])
		}
		if odd || cased {
			used |= otherForms
		}
		switch {
		case c < ' ' || c == 0x7f:
			return b, 0, errPathControl
		case c == '/' && !enc:
			if len(b) == segment+1 {
				used |= emptySegments
			} else {
				segment = len(b)
				b = append(b, '/')
			}
			cut = false
		case c == ';' && !enc:
			used |= parameters
			cut = true
		default:
			if c == '\\' {
				used |= backslash
			} else if c == '/' {
				used |= encodedSlash
			}
			kept = kept || enc && (c == '\\' || c == '/' || c == ';')
			loose = loose || !enc && !allowedByte[c] && c != '[' && c != ']'
			switch {
			case cut:
			case odd && left != nil && left[c]:
				b = appendLower(b, path[i:i+size])
			case !allowedByte[c]:
				for _, c := range char {
					if allowedByte[c] {
						b = append(b, c)
					} else {
						b = appendEscape(b, c)
					}
				}
			case o.IgnoreCase && c >= 'A' && c <= 'Z':
				b = append(b, c|0x20)
			default:
				b = append(b, c)
			}
		}
		i += size
	}
	if !part.takeByte('/') {
		return b, 0, errPathDots
	}
	if kept && loose {
		used |= looseSlash
	}
	if len(b) == segment+1 && segment > root {
		b = b[:segment] // the slash at the end
	}
	return b, used, nil
}

// dots tells whether what stands between two slashes, to whatever server, is . or ..,
// alone or before a parameter. The zero value is the start of a segment.
type dots struct {
	n     int
	other bool
}

// takeByte takes the next byte, decoded. It returns false at the end of . or ..
func (d *dots) takeByte(c byte) bool {
	switch c {
	case '/', '\\', ';':
		ok := d.other || d.n == 0 || d.n > 2
		*d = dots{other: c == ';'}
		return ok
	case '.':
		d.n++
	default:
		d.other = true
	}
	return true
}

// lowerRune returns char, one character, in lower case if that is wanted, and whether it is a
// capital letter, as also the sign of the kelvin is one.
func lowerRune(char []byte, wanted bool) (_ []byte, cased bool) {
	r, _ := utf8.DecodeRune(char)
	l := unicode.ToLower(r)
	if cased = l != r; cased && wanted {
		char = utf8.AppendRune(char[:0], l)
	}
	return char, cased
}

// appendEscape appends c as %XX.
func appendEscape(b []byte, c byte) []byte {
	const upperHex = "0123456789ABCDEF"
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// firstRune appends to char the bytes of the first character of s, escaped or not. It
// returns how many bytes of s that takes, 0 if it is no character: an overlong form, a
// surrogate, the rest of one.
func firstRune(char []byte, s string) (_ []byte, n int) {
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
