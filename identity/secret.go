package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"
)

// Secret is a key of ours. It is written as [redacted] by fmt, by slog and
// where text is marshaled.
type Secret []byte

const redacted = "[redacted]"

// String returns no part of the secret.
func (s Secret) String() string { return redacted }

// GoString returns no part of the secret.
func (s Secret) GoString() string { return redacted }

// Format writes no part of the secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { f.Write([]byte(redacted)) }

// MarshalText returns no part of the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns no part of the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// minSecret is the least that a secret must have, in bytes.
const minSecret = 16

// digestSize is how much of an HMAC is kept: 128 bits.
const digestSize = 16

// digest is a cut HMAC-SHA-256.
type digest [digestSize]byte

// sealer makes digests. It is kept with the memory of a request, as making one
// costs more than using it. Not safe for concurrent use.
type sealer struct {
	mac hash.Hash
	sum [sha256.Size]byte
	in  []byte
}

// newSecret returns s, or random bytes if there is none.
func newSecret(what string, s Secret) (Secret, error) {
	if len(s) == 0 {
		s = make(Secret, sha256.Size)
		rand.Read(s)
		return s, nil
	}
	if len(s) < minSecret {
		return nil, fmt.Errorf("%s has %d bytes, it needs at least %d", what, len(s), minSecret)
	}
	return s, nil
}

// seal returns the digest of text under secret, always the same one for a
// sealer.
func (s *sealer) seal(secret Secret, text string) (d digest) {
	if s.mac == nil {
		s.mac = hmac.New(sha256.New, secret)
	} else {
		s.mac.Reset()
	}
	s.in = append(s.in[:0], text...)
	s.mac.Write(s.in)
	copy(d[:], s.mac.Sum(s.sum[:0]))
	// What was sealed is a credential: it does not outlive its use here.
	clear(s.in)
	return d
}

func (d digest) appendTo(b []byte) []byte { return hex.AppendEncode(b, d[:]) }
