package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// namer turns keys into what is told of them.
type namer struct {
	secret []byte
	plain  bool
}

// name returns the key of a sighting as records tell it.
func (n namer) name(s *sighting) string {
	if n.plain && !s.cut {
		return string(s.key())
	}
	m := hmac.New(sha256.New, n.secret)
	m.Write(s.key())
	if s.cut {
		// The rest of a long key is told by its keyed hash.
		m.Write(binary.LittleEndian.AppendUint64([]byte{0}, s.hash))
	}
	return hex.EncodeToString(m.Sum(nil)[:16])
}
