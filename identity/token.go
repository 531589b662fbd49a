package identity

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// TokenOptions says where requests have their token, and who verifies it.
type TokenOptions struct {
	// From lists where a request may have its token: "bearer" (Authorization:
	// Bearer), "header:NAME", "cookie:NAME", "query:NAME". A request with two
	// different ones is refused, see [Caller.Check]. Zero means bearer.
	From []string
	// Verifier says which tokens are believed, such as credentials.Tokens. The resolver
	// closes it. Zero means that no token is.
	Verifier TokenVerifier
}

// TokenVerifier says which tokens are believed. Safe for concurrent use.
type TokenVerifier interface {
	// Verify returns what a token of at most 8192 bytes says, or why it is not believed.
	// It is asked for each request that has a token, so it must not wait. The claims are
	// not changed afterwards. Beside expired, not_yet_valid, issued_in_future and no_expiry it
	// may return what a token says that is right but for its time: an upstream may still serve
	// its user, who is counted beside the address and has no tier.
	Verify(token string) (Claims, Rejection)
	io.Closer
}

// Claims are what a verified token says, as text, by name.
type Claims map[string]string

// Set adds a claim as it is written in JSON: a string, a number, true or false. Lists
// and blocks have no text. A claim of more than 128 bytes, or with control characters,
// is what stands for it: 128 bits of its SHA-256. One whose name is longer is left out.
func (c Claims) Set(name string, raw json.RawMessage) {
	if v := claimText(raw); v != "" && len(name) <= maxValue {
		c[name] = fitToKey(v)
	}
}

// Rejection is why a token is not believed, in a word of [Failure].Reason: malformed,
// algorithm, unknown_key, no_keys, bad_signature, expired, no_expiry, not_yet_valid,
// issued_in_future, wrong_issuer or wrong_audience. Others count as malformed. Empty means
// that the token is believed.
type Rejection string

// failure returns the failure that r is.
func (r Rejection) failure() failure {
	for f := believed + 1; f < numFailures; f++ {
		if failureWords[f].kind == "jwt" && failureWords[f].reason == string(r) {
			return f
		}
	}
	return tokenMalformed
}

// tokens finds and verifies the tokens of requests. Immutable.
type tokens struct {
	from     claimants
	verifier TokenVerifier
}

// newTokens returns what finds and verifies tokens, or nil if nobody verifies any.
func newTokens(o TokenOptions) (*tokens, error) {
	if o.Verifier == nil {
		if len(o.From) > 0 {
			return nil, errors.New("jwt: set who verifies tokens, to say where requests have them (Options.Token.Verifier)")
		}
		return nil, nil
	}
	if len(o.From) == 0 {
		o.From = []string{"bearer"}
	}
	from, err := credentials("jwt", o.From)
	if err != nil {
		return nil, err
	}
	return &tokens{from, o.Verifier}, nil
}

// verify returns what token says, and why if it is not believed.
func (t *tokens) verify(token string) (Claims, failure) {
	if len(token) > maxToken {
		return nil, tokenTooLong
	}
	all, why := t.verifier.Verify(token)
	if why != "" {
		return all, why.failure()
	}
	return all, believed
}

// findToken returns the token of a request as it was sent, or an error if another reader may
// not find it, or may find another in its place.
func (t *tokens) findToken(c *Caller) (string, error) {
	if t == nil {
		return "", nil
	}
	token := ""
	for _, f := range t.from {
		v, err := f.credential(c)
		switch {
		case err != nil:
			return "", err
		case v == "" || v == token:
		case !isJWS(v):
			// A reader that is less exact could find a token in it.
			if strings.Count(v, ".") > 1 {
				return "", errCredential
			}
			token = cmp.Or(token, v)
		case isJWS(token):
			return "", errCredential
		default:
			token = v
		}
	}
	return token, nil
}

// claimText returns a claim as text: a string, a number as it is written, true
// or false. Lists and blocks have none.
func claimText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f':
		return string(raw)
	}
	return ""
}
