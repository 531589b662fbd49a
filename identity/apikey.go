package identity

import (
	"crypto/sha256"
	"errors"
)

// APIKeyOptions says where an API key is sent.
type APIKeyOptions struct {
	// From lists where a request may have it: "header:NAME", "bearer"
	// (Authorization: Bearer), "cookie:NAME", "query:NAME". A request with two
	// different ones is refused, see [Caller.Check]. Zero means that requests have
	// no key.
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

// minKey is the fewest bytes that can have 128 random bits.
const minKey = 16

// apiKeys finds and seals API keys. Immutable but for the file's content.
type apiKeys struct {
	from   []claimant
	secret Secret
	file   *KeyFile
}

func newAPIKeys(o APIKeyOptions, file *KeyFile) (*apiKeys, error) {
	if len(o.From) == 0 {
		if file != nil {
			return nil, errors.New("api_key: set from, where requests have the key, to use a file of keys")
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

// findKey finds out the request's API key.
func (c *Caller) findKey() {
	k := c.r.keys
	if c.known&knownKey != 0 || k == nil {
		return
	}
	c.known |= knownKey
	if c.Check() != nil || c.key == "" {
		return
	}
	key := c.key
	isToken := key == c.token && isJWS(key) // a key only where there is no other
	if len(key) > maxKey {
		if !isToken {
			c.fail(keyTooLong)
		}
		return
	}
	if k.file != nil {
		// The digest's place in a map tells nothing of the key, whose digest alone
		// an attacker cannot choose; no part of a key is compared.
		if c.keyRow = k.file.key(sha256.Sum256([]byte(key))); c.keyRow == nil {
			if !isToken {
				c.fail(keyUnknown)
			}
			return
		}
		if len(key) < minKey {
			c.r.reports.reportShortKey(c)
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
