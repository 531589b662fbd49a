package identity

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// credential returns what the request has at one place where a credential is
// sent, "" if it has nothing there.
func (f claimant) credential(c *Caller) (string, error) {
	v, ok := "", true
	switch f.kind {
	case fromBearer:
		v, ok = readBearer(c)
	case fromHeader:
		v = headerValue(c.f.Header, f.name)
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
			ok = ok && !strings.HasPrefix(v, "j:") // JSON to Express
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

// readBearer returns the token of the Authorization field, and whether every reader
// finds the same there. A field of another scheme has none, unless it holds one
// that a careless reader finds.
//
// Source: RFC 6750 §2.1; the scheme's case is free, RFC 9110 §11.1.
func readBearer(c *Caller) (token string, ok bool) {
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

// mostWords is how many words a line of another scheme may have, as each is hashed to look
// for it among the keys. Digest has less than 30.
const mostWords = 64

// hidesToken reports whether a line that is not Bearer's holds a token
// nevertheless: behind that word, or as a word of its own that is known. A line of more
// than mostWords words is taken for one that does.
func hidesToken(r *Resolver, line string) bool {
	const scheme = "bearer"
	for i := 0; i+len(scheme) < len(line); i++ {
		if line[i]|0x20 == scheme[0] && strings.EqualFold(line[i:i+len(scheme)], scheme) {
			if c := line[i+len(scheme)]; c <= ' ' || c == ':' || c >= 0x7f {
				return true
			}
		}
	}
	words := 0
	for word := range strings.FieldsFuncSeq(line, func(c rune) bool { return isSeparator(byte(min(c, 0x7f))) }) {
		if words++; words > mostWords || r.tokens.isBearer(word) || r.keys.isBearer(word) {
			return true
		}
	}
	return false
}

// isBearer reports whether the table has word, and keys are sent as bearer tokens.
func (k *apiKeys) isBearer(word string) bool {
	return k != nil && k.table != nil && len(word) <= maxKey &&
		slices.Contains(k.from, claimant{fromBearer, ""}) && k.table.Key(sha256.Sum256([]byte(word))) != nil
}

// isBearer reports whether word is a signed token, and tokens are sent as bearer tokens.
func (t *tokens) isBearer(word string) bool {
	return t != nil && isJWS(word) && slices.Contains(t.from, claimant{fromBearer, ""})
}
