package identity

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// credentials compiles where a credential is sent.
func credentials(what string, from []string) (claimants, error) {
	var all claimants
	for _, text := range from {
		word, arg, _ := strings.Cut(text, ":")
		switch {
		case text == "bearer":
			all = append(all, claimant{fromBearer, ""})
		case word == "header" && isToken(arg):
			all = append(all, claimant{fromHeader, http.CanonicalHeaderKey(arg)})
		case word == "cookie" && isToken(arg):
			all = append(all, claimant{fromCookie, arg})
		case word == "query" && arg != "":
			all = append(all, claimant{fromQuery, arg})
		default:
			return nil, fmt.Errorf("%s: %q is not where a credential is sent, choose bearer, header:NAME, cookie:NAME or query:NAME", what, text)
		}
	}
	return all, nil
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

// credential returns what the request has at one place where a credential is
// sent, "" if it has nothing there.
func (f claimant) credential(c *Caller) (string, error) {
	v, ok := "", true
	switch f.kind {
	case fromBearer:
		v, ok = bearer(c)
	case fromHeader:
		v = header(c.f.Header, f.name)
		word, rest := "", v
		if f.name == "Authorization" { // a scheme may precede
			if scheme, token, found := strings.Cut(v, " "); found && isToken(scheme) {
				word, rest = scheme, token
			}
		}
		ok = isCredential(rest) && (word == "" || rest != "")
	case fromCookie:
		if v, ok = oneCookie(c.f.Header["Cookie"], f.name); ok {
			v, ok = c.text.decodeOnce(v, false)
		}
	case fromQuery:
		if v, ok = oneParameter(c.f.Query, f.name); ok {
			v, ok = c.text.decodeOnce(v, true)
		}
	}
	if !ok {
		return "", errCredential
	}
	return v, nil
}

// isCredential reports whether every reader takes v for one credential: visible
// ASCII without what separates, quotes or escapes. It may be empty.
func isCredential(v string) bool {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c <= ' ' || c > '~', c == '"', c == ',', c == ';', c == '\\':
			return false
		}
	}
	return true
}

// bearer returns the token of the Authorization field, and whether every reader
// finds the same there. A field of another scheme has none, unless it holds one
// that a careless reader finds.
//
// Source: RFC 6750 §2.1; the scheme's case is free, RFC 9110 §11.1.
func bearer(c *Caller) (token string, ok bool) {
	lines := c.f.Header["Authorization"]
	if len(lines) != 1 {
		return "", len(lines) == 0
	}
	line := trimSpace(lines[0])
	const scheme = "bearer"
	if len(line) >= len(scheme) && strings.EqualFold(line[:len(scheme)], scheme) {
		rest := line[len(scheme):]
		if rest == "" {
			return "", true
		}
		if rest[0] == ' ' && isBearerToken(rest[1:]) {
			return rest[1:], true
		}
		// Else it is another scheme, such as BearerX, or none.
		if !isAlnum(rest[0]) && rest[0] != '-' {
			return "", false
		}
	}
	return "", !hidesToken(c.r, line)
}

// isBearerToken reports whether every reader takes v for the token itself. Some skip
// colons before it, some read a parameter's value in "token=x", so an equals sign
// may only pad its end.
//
// Source: RFC 6750 §2.1, b64token; other visible characters are keys in use.
func isBearerToken(v string) bool {
	bare := strings.TrimRight(v, "=")
	return bare != "" && bare[0] != ':' && strings.IndexByte(bare, '=') < 0 && isCredential(v)
}

// hidesToken reports whether a line that is not Bearer's holds a token
// nevertheless: behind that word, or as a word of its own that is known.
func hidesToken(r *Resolver, line string) bool {
	const scheme = "bearer"
	for i := 0; i+len(scheme) < len(line); i++ {
		if strings.EqualFold(line[i:i+len(scheme)], scheme) {
			if c := line[i+len(scheme)]; c <= ' ' || c == ':' || c >= 0x7f {
				return true
			}
		}
	}
	for rest := line; rest != ""; {
		end := 0
		for end < len(rest) && !isSeparator(rest[end]) {
			end++
		}
		if word := rest[:end]; r.tokens.isBearer(word) || r.keys.isBearer(word) {
			return true
		}
		if end == len(rest) {
			break
		}
		rest = rest[end+1:]
	}
	return false
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
	if len(s) < 3 || s[0] != '%' || !isHex(s[1]) || !isHex(s[2]) {
		return s[0], 1
	}
	ch, size = unhex(s[1])<<4|unhex(s[2]), 3
	if ch == '%' && len(s) >= 5 && isHex(s[3]) && isHex(s[4]) {
		ch, size = unhex(s[3])<<4|unhex(s[4]), 5
	}
	return ch, size
}
