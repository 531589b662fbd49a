package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// APIKeyOptions says where an API key is sent.
type APIKeyOptions struct {
	// From lists where a request has it, the first that has one wins:
	// "header:NAME", "bearer" (Authorization: Bearer), "cookie:NAME",
	// "query:NAME". Zero means that requests have no key.
	From []string `yaml:"from"`
	// Secret makes of a key what stands for it in counters, logs and events: 128
	// bits of its HMAC-SHA-256. At least 16 bytes. Zero means random bytes of this
	// process: after a restart, and on every other node, a key is then another
	// one.
	Secret Secret `yaml:"-"`
}

// maxCredential bounds a key or a token, in bytes. A longer one is none.
const (
	maxKey   = 512
	maxToken = 8192
)

// apiKeys finds and seals API keys. Immutable but for the file's content.
type apiKeys struct {
	from   []claimant
	secret Secret
	file   *KeyFile
}

func newAPIKeys(o APIKeyOptions, file *KeyFile) (*apiKeys, error) {
	if len(o.From) == 0 {
		if file != nil {
			return nil, errors.New("api_key: from says where a key is sent, set it to use a file of keys")
		}
		return nil, nil
	}
	k := &apiKeys{file: file}
	var err error
	if k.from, err = credentials("api_key", o.From); err != nil {
		return nil, err
	}
	k.secret, err = newSecret("api_key: secret", o.Secret)
	return k, err
}

// credentials compiles where a credential is sent.
func credentials(what string, from []string) ([]claimant, error) {
	var all []claimant
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

// credential returns the first credential that the request has, "" if there is
// none or it is longer than most.
func (c *Caller) credential(from []claimant, most int) string {
	for _, f := range from {
		v := ""
		switch f.kind {
		case fromBearer:
			v = c.bearer()
		case fromHeader:
			v = c.header(f.name)
		case fromCookie:
			v = c.cookie(f.name)
		case fromQuery:
			v = c.query(f.name)
		}
		if v != "" {
			if len(v) > most {
				return ""
			}
			return v
		}
	}
	return ""
}

// bearer returns the token of the Authorization header.
//
// Source: RFC 6750 §2.1; the scheme's case is free, RFC 9110 §11.1.
func (c *Caller) bearer() string {
	lines := c.f.Header["Authorization"]
	if len(lines) != 1 {
		return ""
	}
	scheme, token, ok := strings.Cut(trimSpace(lines[0]), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return trimSpace(token)
}

// findKey finds out the request's API key.
func (c *Caller) findKey() {
	k := c.r.keys
	if c.known&knownKey != 0 || k == nil {
		return
	}
	c.known |= knownKey
	key := c.credential(k.from, maxKey)
	if key == "" {
		return
	}
	if k.file != nil {
		// The digest's place in a map tells nothing of the key, whose digest alone
		// an attacker cannot choose; no part of a key is compared.
		if c.keyRow = k.file.key(sha256.Sum256([]byte(key))); c.keyRow == nil {
			return
		}
	}
	d := c.keySealer.seal(k.secret, key)
	c.apiKey, _ = c.made(d.appendTo(c.buf), nil)
}

// APIKey returns what stands for the API key of the request, in 32 hexadecimal
// digits: 128 bits of its HMAC. It is "" if there is no key, or if there is a
// file of keys and it is not in it.
func (c *Caller) APIKey() string {
	c.findKey()
	return c.apiKey
}
