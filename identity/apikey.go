package identity

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"sync/atomic"
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

// KeyTable knows API keys. Safe for concurrent use.
type KeyTable interface {
	// Key returns the key whose SHA-256 is sum, nil if there is none. A key is the same
	// pointer each time.
	Key(sum [sha256.Size]byte) *Key
	// TierOf returns the tier of a user, "" if the table has none.
	TierOf(user string) string
}

// Key is what a table says of an API key: whose it is, and the tier. Both may be empty.
type Key struct {
	User, Tier string
	warned     atomic.Bool // that the key is short
}

// maxCredential bounds a key or a token, in bytes. A longer one is none.
const (
	maxKey   = 512
	maxToken = 8192
)

// minKey is the fewest bytes that can have 128 random bits.
const minKey = 16

// apiKeys finds and seals API keys. Immutable but for the table's content.
type apiKeys struct {
	from   claimants
	secret Secret
	table  KeyTable // nil: any key is one
}

func newAPIKeys(o APIKeyOptions, table KeyTable) (*apiKeys, error) {
	if len(o.From) == 0 {
		if table != nil {
			return nil, errors.New("api_key: set from, where requests have the key, to use a file of keys")
		}
		return nil, nil
	}
	k := &apiKeys{table: table}
	var err error
	if k.from, err = credentials("api_key", o.From); err != nil {
		return nil, err
	}
	k.secret, err = newSecret("api_key: secret", o.Secret)
	return k, err
}

// findKey returns the API key of a request as it was sent, or an error if another reader
// may not find it, or may find another in its place.
func (k *apiKeys) findKey(c *Caller) (string, error) {
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
