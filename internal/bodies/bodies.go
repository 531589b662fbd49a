// Package bodies bounds the memory that unfinished requests may hold, in total:
// clients that begin large bodies and do not end them share one budget, however
// many connections and streams they have.
package bodies

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrNoRoom is returned for a body for which a budget has no room.
var ErrNoRoom = errors.New("unfinished bodies hold as much memory as they may")

// Free is what each request may hold without asking the budget, in bytes: nearly
// all requests are smaller.
const Free = 16 << 10

// Most is the usual budget, in bytes.
const Most = 64 << 20

// Budget is how much memory large bodies may hold together. The zero value has
// nothing to give. Safe for concurrent use.
type Budget struct {
	most    int64
	held    atomic.Int64
	refused atomic.Uint64
}

// New returns a budget of most bytes; zero means Most.
func New(most int64) *Budget {
	if most == 0 {
		most = Most
	}
	return &Budget{most: most}
}

// Held returns how many bytes are taken.
func (b *Budget) Held() int64 { return b.held.Load() }

// Refuse counts a request that is refused because there is no room for its body.
func (b *Budget) Refuse() { b.refused.Add(1) }

// Refused returns how many requests were refused.
func (b *Budget) Refused() uint64 { return b.refused.Load() }

// Share is the part of a budget that one request holds. Not safe for concurrent
// use.
type Share struct {
	of   *Budget
	held int64
}

// Share returns an empty share of b.
func (b *Budget) Share() Share { return Share{of: b} }

// Grow makes the share that of a body whose buffers take so many bytes, and
// reports false, with the share as it was, where the budget has no room for it.
func (s *Share) Grow(size int) bool {
	held := max(int64(size)-Free, 0)
	more := held - s.held
	if more == 0 {
		return true
	}
	if s.of.held.Add(more) > s.of.most && more > 0 {
		s.of.held.Add(-more)
		return false
	}
	s.held = held
	return true
}

// ReadAll returns what r has, as io.ReadAll does. The share is that of the body until
// End, also while it is decoded. Where the budget has no room for the body, the refusal
// is counted and the error is ErrNoRoom.
func (s *Share) ReadAll(r io.Reader) ([]byte, error) {
	b := make([]byte, 0, 512)
	for {
		if len(b) == cap(b) {
			// Growing keeps the old buffer until it is copied.
			if !s.Grow(3 * cap(b)) {
				s.of.Refuse()
				return nil, ErrNoRoom
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// End gives all of it back.
func (s *Share) End() { s.Grow(0) }
