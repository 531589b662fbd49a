package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/weirlimit/weir/internal/figures"
)

// keyHasher turns keys and identities into what is told of them. Not safe for
// concurrent use.
type keyHasher struct {
	mac      hash.Hash
	unhashed bool
	sum      [sha256.Size]byte
}

func newKeyHasher(secret []byte, unhashed bool) *keyHasher {
	return &keyHasher{mac: hmac.New(sha256.New, secret), unhashed: unhashed}
}

// nameKey returns the key of a sighting as records tell it.
func (n *keyHasher) nameKey(s *sighting) string {
	if n.unhashed && !s.cut {
		return figures.Key(string(s.key()))
	}
	if s.cut {
		return n.keyedHash(s.key(), s.hash)
	}
	return n.keyedHash(s.key(), 0)
}

// identity returns who is named in place of the name. It is what a key of the same
// text is told as, so that limits by address, by user and by key can be put
// together.
func (n *keyHasher) identity(name string, cut uint64) string {
	if name == "" {
		return ""
	}
	return n.keyedHash([]byte(name), cut)
}

// keyedHash returns the keyed hash of a text. If it was cut, the rest is told by the
// hash cut.
func (n *keyHasher) keyedHash(text []byte, cut uint64) string {
	n.mac.Reset()
	n.mac.Write(text)
	if cut != 0 {
		n.mac.Write(binary.LittleEndian.AppendUint64([]byte{0}, cut))
	}
	return hex.EncodeToString(n.mac.Sum(n.sum[:0])[:16])
}
