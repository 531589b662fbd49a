package identity

import (
	"net/http"
	"net/url"
	"strings"
)

// header returns the value of a header. Several lines are joined by commas, as
// RFC 9110 §5.2 has it.
func header(h http.Header, name string) string {
	switch lines := h[name]; len(lines) {
	case 0:
		return ""
	case 1:
		return trimSpace(lines[0])
	default:
		return strings.Join(lines, ", ")
	}
}

// trimSpace cuts the white space of HTTP: spaces and tabs.
func trimSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// byteSet is a set of bytes.
type byteSet [256]bool

// newByteSet returns the set of those that has reports.
func newByteSet(has func(c byte) bool) (t byteSet) {
	for c := range t {
		t[c] = has(byte(c))
	}
	return t
}

// hasAll reports whether all bytes of s are in the set.
func (t *byteSet) hasAll(s string) bool {
	for i := range len(s) {
		if !t[s[i]] {
			return false
		}
	}
	return true
}

var digitBytes = newByteSet(func(c byte) bool { return c >= '0' && c <= '9' })

// tokenBytes are those of a token of RFC 9110 §5.6.2.
var tokenBytes = newByteSet(func(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 })

// isToken reports whether s is a token.
func isToken(s string) bool { return s != "" && tokenBytes.hasAll(s) }

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// isJWS reports whether v has the form of a signed token: three parts of
// base64url without padding, of which the last may be empty.
//
// Source: RFC 7515 §3.1.
func isJWS(v string) bool {
	dots, part := 0, 0
	for i := 0; i < len(v); i++ {
		switch ch := v[i]; {
		case ch == '.':
			if part == 0 || part%4 == 1 {
				return false
			}
			dots++
			part = 0
		case isAlnum(ch) || ch == '-' || ch == '_':
			part++
		default:
			return false
		}
	}
	return dots == 2 && part%4 != 1
}

// credentialBytes are visible ASCII without what separates, quotes or escapes.
var credentialBytes = newByteSet(func(c byte) bool { return c > ' ' && c <= '~' && strings.IndexByte(`",;\`, c) < 0 })

// isCredential reports whether every reader takes v for one credential. It may be
// empty.
func isCredential(v string) bool { return credentialBytes.hasAll(v) }

// isBearerToken reports whether every reader takes v for the token itself. Some skip
// colons before it, some read a parameter's value in "token=x", so an equals sign
// may only pad its end.
//
// Source: RFC 6750 §2.1, b64token; other visible characters are keys in use.
func isBearerToken(v string) bool {
	bare := strings.TrimRight(v, "=")
	return bare != "" && bare[0] != ':' && strings.IndexByte(bare, '=') < 0 && isCredential(v)
}

// isSeparator reports whether some reader ends a word at c.
func isSeparator(c byte) bool {
	return c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '='
}

// oneCookie returns the value of the cookie of a name, and whether every reader
// finds it, and no other: once, not in quotes, with one way to decode it.
//
// Source: RFC 6265 §4.2.1; older readers split at commas (RFC 2965) and white
// space too.
func oneCookie(lines []string, name string) (value string, ok bool) {
	if len(lines) == 0 {
		return "", true
	}
	exact, alike, quotes := 0, 0, 0
	empty := false
	for rest := lines[0]; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, ";")
		empty = empty || trimSpace(pair) == "" // where some readers give up
		if n, v, found := strings.Cut(trimSpace(pair), "="); found && n == name {
			if quotes%2 != 0 || empty || !isCredential(v) {
				return "", false
			}
			exact++
			value = v
		} else if found && sameName(n, name, true) {
			return "", false
		}
		quotes += strings.Count(pair, `"`)
		for more := pair; more != ""; {
			var part string
			if i := strings.IndexAny(more, ", \t\""); i >= 0 {
				part, more = more[:i], more[i+1:]
			} else {
				part, more = more, ""
			}
			part, _, _ = strings.Cut(strings.TrimLeft(part, "="), "=")
			if sameName(part, name, true) {
				alike++
			}
		}
	}
	if alike != exact || exact > 1 {
		return "", false
	}
	// Some readers decode a cookie. What they write themselves escapes nothing that
	// need not be.
	return value, !escapesNeedlessly(value)
}

// escapesNeedlessly reports whether v has an escape of a character that no encoder
// escapes.
func escapesNeedlessly(v string) bool {
	for i := 0; i < len(v); i++ {
		if ch, n := unescapeAt(v[i:]); n > 1 && (isAlnum(ch) || strings.IndexByte("-_.!~*'()", ch) >= 0) {
			return true
		}
	}
	return false
}

// oneParameter returns the value of the query's parameter of a name, and
// whether every reader finds it, and no other.
//
// Source: WHATWG URL, "application/x-www-form-urlencoded"; older readers split at
// semicolons too (HTML 4.01 §B.2.2).
func oneParameter(query, name string) (value string, ok bool) {
	exact, alike := 0, 0
	for rest := query; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if n, v, _ := strings.Cut(pair, "="); n == name || len(n) > len(name) && strings.EqualFold(n, url.QueryEscape(name)) {
			exact++
			value = v
		}
		for more := pair; more != ""; {
			var part string
			part, more, _ = strings.Cut(more, ";")
			part, _, _ = strings.Cut(part, "=")
			if sameName(part, name, true) {
				alike++
			}
		}
	}
	return value, alike == exact && exact <= 1
}

// sameName reports whether some reader takes s, the name of a cookie or of a
// parameter as it is written, for name: decoded, twice at most, up to a bracket or
// a NUL, with whatever is no letter or digit for an underscore, as PHP and others
// read it, and in any case if that is asked for.
func sameName(s, name string, anyCase bool) bool {
	if len(s) < len(name) {
		return false
	}
	i := 0
	next := func() (ch byte, more bool) {
		if i >= len(s) {
			return 0, false
		}
		ch, n := unescapeAt(s[i:])
		i += n
		return ch, true
	}
	ch, more := next()
	for more && (ch <= ' ' || ch == '?' || ch == '+') {
		ch, more = next()
	}
	for at := 0; at < len(name); at++ {
		if !more || foldName(ch) != foldName(name[at]) || !anyCase && isAlnum(ch) && ch != name[at] {
			return false
		}
		ch, more = next()
	}
	for more && (ch == ' ' || ch == '\t' || ch == '+') {
		ch, more = next()
	}
	return !more || ch == '[' || ch == 0
}

// unescapeAt returns the byte that s begins with, decoded twice at most, and how
// many bytes it takes.
func unescapeAt(s string) (ch byte, size int) {
	ch, ok := unescapeByte(s)
	switch {
	case !ok:
		return s[0], 1
	case ch == '%' && len(s) >= 5 && isHex(s[3]) && isHex(s[4]):
		return unhex(s[3])<<4 | unhex(s[4]), 5
	}
	return ch, 3
}

// unescapeByte returns the byte that s begins with the escape of, and false if it begins
// with none.
func unescapeByte(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' || !isHex(s[1]) || !isHex(s[2]) {
		return 0, false
	}
	return unhex(s[1])<<4 | unhex(s[2]), true
}

// foldName returns c as in the name of a variable, in lower case.
func foldName(c byte) byte {
	if !isAlnum(c) {
		return '_'
	}
	return lower(c)
}

// lower returns c, a capital letter in lower case.
func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// appendLower appends s, capital letters in lower case.
func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		b = append(b, lower(s[i]))
	}
	return b
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
