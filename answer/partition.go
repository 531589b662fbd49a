package answer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/weirlimit/weir"
)

// pkBytes is how much of an HMAC is told: two of 2^32 counters share a pk with
// a chance of 2^-33, and no base64 padding is needed.
const pkBytes = 12

// pk names a counter to its clients without telling its key. Zero means that
// there is none to tell.
type pk [pkBytes]byte

// partition makes pks. Safe for concurrent use.
type partition struct{ macs sync.Pool }

// mac is the working memory of one pk.
type mac struct {
	hash.Hash
	in  []byte
	sum []byte
}

func newPartition(secret []byte) *partition {
	secret = append([]byte(nil), secret...)
	return &partition{macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }}}
}

// keyOfCounter returns the pk of the counter that o asked. Scope and key are told apart
// by the scope's length.
func (p *partition) keyOfCounter(o *weir.Op) (k pk) {
	m := p.macs.Get().(*mac)
	m.in = binary.LittleEndian.AppendUint64(m.in[:0], uint64(len(o.Limit.Scope)))
	m.in = append(m.in, o.Limit.Scope...)
	m.in = append(m.in, o.Key...)
	m.Reset()
	m.Write(m.in) // never fails, see hash.Hash
	m.sum = m.Sum(m.sum[:0])
	copy(k[:], m.sum)
	clear(m.in)
	p.macs.Put(m)
	return k
}

// appendPK appends k as a parameter.
func appendPK(b []byte, k pk) []byte {
	if k == (pk{}) {
		return b
	}
	b = append(b, ";pk=:"...)
	b = base64.StdEncoding.AppendEncode(b, k[:])
	return append(b, ':')
}
