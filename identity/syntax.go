package identity

import (
	"net/http"
	"net/url"
	"strings"
)

// headerValue returns the value of a header. Several lines are joined by commas, as
// RFC 9110 §5.2 has it.
func headerValue(h http.Header, name string) string {
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

func isHexDigit(c byte) bool {
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

// cookieBytes are those that a line of cookies may hold, and some that many hold
// nevertheless: commas, quotes and backslashes. Of the others some readers trim one, as
// the no-break space, or end a name or a value at it.
//
// Source: RFC 6265 §4.1.1.
var cookieBytes = newByteSet(func(c byte) bool { return c >= ' ' && c < 0x7f })

// eachCookie calls found with the name and the value of each cookie of a line that some
// reader takes for the one of a name. It returns false if another reader may find others:
// if one is in quotes, behind an empty pair, where some give up, or only for those who
// split at commas (RFC 2965) and white space too.
func eachCookie(line, name string, found func(name, value string)) (ok bool) {
	if !cookieBytes.hasAll(line) {
		return false
	}
	quotes, empty := 0, false
	for line != "" {
		var pair string
		pair, line, _ = strings.Cut(line, ";")
		pair = strings.TrimLeft(pair, " ")
		alike := 0
		if n, v, valued := strings.Cut(pair, "="); valued && sameName(n, name) {
			if quotes%2 != 0 || empty {
				return false
			}
			alike++
			found(n, v)
		}
		quotes += strings.Count(pair, `"`)
		empty = empty || pair == ""
		for pair != "" {
			part := pair
			if i := strings.IndexAny(pair, ", \""); i >= 0 {
				part, pair = pair[:i], pair[i+1:]
			} else {
				pair = ""
			}
			if n, _, _ := strings.Cut(strings.TrimLeft(part, "="), "="); sameName(n, name) {
				alike--
			}
		}
		if alike != 0 {
			return false
		}
	}
	return true
}

// oneCookie returns the value of the cookie of a name, and whether every reader
// finds it, and no other: once, not in quotes, with one way to decode it.
//
// Source: RFC 6265 §4.2.1.
func oneCookie(lines []string, name string) (value string, ok bool) {
	if len(lines) == 0 {
		return "", true
	}
	cookies, exact := 0, true
	ok = eachCookie(lines[0], name, func(n, v string) {
		cookies++
		value, exact = v, n == name && isCredential(v)
	})
	// Some readers decode a cookie. What they write themselves escapes nothing that
	// need not be.
	return value, ok && exact && cookies <= 1 && !escapesNeedlessly(value)
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

// eachParameter calls found with the name and the value, as they are written, of each
// parameter of a query that some reader takes for the one of a name. It returns false if
// readers decode the query in several ways.
//
// Source: WHATWG URL, "application/x-www-form-urlencoded"; older readers split at
// semicolons too (HTML 4.01 §B.2.2).
func eachParameter(query, name string, found func(name, value string)) (ok bool) {
	for rest := query; rest != ""; {
		var pair string
		for pair, rest, _ = strings.Cut(rest, "&"); pair != ""; {
			n, v, _ := strings.Cut(pair, "=")
			if sameName(n, name) {
				found(n, v)
			}
			i := strings.IndexByte(pair[1:], ';')
			if i < 0 {
				break
			}
			pair = pair[1+i:] // with the semicolon: to most this is no name
		}
	}
	return !hasBrokenEscape(query)
}

// oneParameter returns the value of the query's parameter of a name, and
// whether every reader finds it, and no other.
func oneParameter(query, name string) (value string, ok bool) {
	parameters, exact := 0, true
	ok = eachParameter(query, name, func(n, v string) {
		parameters++
		value, exact = v, n == name || len(n) > len(name) && strings.EqualFold(n, url.QueryEscape(name))
	})
	return value, ok && exact && parameters <= 1
}

// hasBrokenEscape reports whether a query has a percent sign that begins no escape: some
// readers keep it, some drop it, and to some %u0061 is a letter.
func hasBrokenEscape(query string) bool {
	for {
		_, after, found := strings.Cut(query, "%")
		if !found {
			return false
		}
		if len(after) < 2 || !isHexDigit(after[0]) || !isHexDigit(after[1]) {
			return true
		}
		query = after[2:]
	}
}

// sameName reports whether some reader takes s, the name of a cookie, a parameter or a
// field as it is written, for name. Letters and digits alone tell names apart, in any
// case, as readers drop what else stands around a name, or read it as an underscore. A
// name may end at a bracket or a NUL.
func sameName(s, name string) bool {
	if strings.Contains(s, "%25%") { // an escape is escaped itself
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
	}
	ended := false
	for s != "" {
		ch, n := unescapeAt(s)
		s = s[n:]
		if !isAlnum(ch) {
			ended = ended || ch == '[' || ch == ']' || ch == 0
			continue
		}
		if name = trimMarks(name); name == "" {
			return ended
		}
		if lowerByte(ch) != lowerByte(name[0]) {
			return false
		}
		name, ended = name[1:], false
	}
	return trimMarks(name) == ""
}

// trimMarks returns s from its first letter or digit on.
func trimMarks(s string) string {
	for s != "" && !isAlnum(s[0]) {
		s = s[1:]
	}
	return s
}

// unescapeAt returns the byte that s begins with, decoded as often as it can be, and how
// many bytes it takes.
func unescapeAt(s string) (ch byte, size int) {
	for ch, size = s[0], 1; ch == '%' && len(s) >= size+2 && isHexDigit(s[size]) && isHexDigit(s[size+1]); size += 2 {
		ch = hexValue(s[size])<<4 | hexValue(s[size+1])
	}
	return ch, size
}

// unescapeByte returns the byte that s begins with the escape of, and false if it begins
// with none.
func unescapeByte(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' || !isHexDigit(s[1]) || !isHexDigit(s[2]) {
		return 0, false
	}
	return hexValue(s[1])<<4 | hexValue(s[2]), true
}

// lowerByte returns c, a capital letter in lower case.
func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// appendLower appends s, capital letters in lower case.
func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		b = append(b, lowerByte(s[i]))
	}
	return b
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
