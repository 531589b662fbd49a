package identity

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
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
	from   claimants
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

// identify finds out the request's API key.
func (k *apiKeys) identify(c *Caller) {
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
			c.r.reports.fail(c, keyTooLong)
		}
		return
	}
	if k.file != nil {
		// The digest's place in a map tells nothing of the key, whose digest alone
		// an attacker cannot choose; no part of a key is compared.
		if c.keyRow = k.file.key(sha256.Sum256([]byte(key))); c.keyRow == nil {
			if !isToken {
				c.r.reports.fail(c, keyUnknown)
			}
			return
		}
		if len(key) < minKey {
			c.r.reports.reportShortKey(c)
		}
	}
	d := c.keySealer.seal(k.secret, key)
	c.apiKey = c.text.keep(d.appendTo(c.text.buf))
}

// claim returns the user of the request's API key; or its tier, else that of
// the request's user.
func (k *apiKeys) claim(c *Caller, what known) string {
	k.identify(c)
	switch row := c.keyRow; {
	case row != nil && what == knownUser:
		return row.user
	case row != nil && row.tier != "":
		return row.tier
	case what == knownTier:
		return k.file.tierOf(c.User())
	}
	return ""
}

// APIKey returns what stands for the API key of the request, in 32 hexadecimal
// digits: 128 bits of its HMAC. It is "" if there is no key, or if there is a
// file of keys and it is not in it.
func (c *Caller) APIKey() string {
	c.r.keys.identify(c)
	return c.apiKey
}

// find returns the API key of a request as it was sent, or an error if another reader
// may not find it, or may find another in its place.
func (k *apiKeys) find(c *Caller) (string, error) {
	if k == nil {
		return "", nil
	}
	key, spare := "", "" // spare: a token, if it is a key only where there is no other
	for _, f := range k.from {
		v, err := f.credential(c)
		switch {
		case err != nil:
			return "", err
		case v == "" || v == key:
		case c.r.tokens != nil && isJWS(v) && slices.Contains(c.r.tokens.from, f):
			spare = v
		case key != "":
			return "", errCredential
		default:
			key = v
		}
	}
	return cmp.Or(key, spare), nil
}

// isBearer reports whether the file has word, and keys are sent as bearer tokens.
func (k *apiKeys) isBearer(word string) bool {
	return k != nil && k.file != nil && len(word) <= maxKey &&
		slices.Contains(k.from, claimant{fromBearer, ""}) && k.file.key(sha256.Sum256([]byte(word))) != nil
}
