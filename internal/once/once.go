// Package once has a call charged once, however often it is made: beside a counter that it
// charges, and in the same call of the store or not at all, a mark is charged that has room
// once.
//
//	first call    mark 0 -> 7, counter +1      allowed
//	the same      mark is 7                    allowed, as it was; nothing is charged
//	another, 9    mark is 7                    ErrMismatch
//	refused       mark stays 0                 the next call is decided anew
//
// What a mark counts says which call it was. A request that has no answer is not decided:
// it is not known whether the mark is there, and the same call again finds out.
package once

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/params"
)

// Can be returned for a call with a key.
var (
	// ErrMismatch: the key was that of another call.
	ErrMismatch = errors.New("the idempotency key was that of another request: a key is for one request and its repeats")
	// ErrUnsupported: no store can charge the call and remember it at once.
	ErrUnsupported = errors.New("cannot be charged once")
)

// Most is the highest value that a mark counts.
const Most = 1 << 52

// Life is how long a call is remembered.
const Life = time.Hour

// NewLimit returns a limit whose counters are marks that live so long; alone: the node keeps
// them, as what they lie beside.
func NewLimit(name, scope string, life time.Duration, alone bool) *weir.Limit {
	l := &weir.Limit{
		Name: name, Scope: "\x1f" + scope, Algorithm: algorithm.FixedWindow,
		Count: Most, Period: life.Truncate(time.Microsecond), Params: params.Params{Anchor: params.AnchorFirst},
		// Two nodes that each marked on its own would charge twice, and so would two
		// servers of a ring. What a refusal says is read: it must be the store's.
		Consistency: params.Consistency{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorDeny, DenyCache: params.DenyCacheOff, Pinned: true},
	}
	if alone {
		l.Consistency.Mode = params.ConsistencyLocal
	}
	if err := l.Compile(); err != nil {
		panic(err) // nobody chooses its numbers
	}
	return l
}

// Op returns the op that makes the mark of a key count a value, from 1 to Most: it passes
// only while it counts nothing.
func Op(l *weir.Limit, key string, value int64) weir.Op {
	return weir.Op{Key: key, Limit: l, Cost: value, Headroom: Most - value}
}

// Value returns what a mark counts, by the answer to an op on it: 0 for nothing.
func Value(o *weir.Op) int64 { return Most - o.Decision.Remaining }

// Calls are remembered by the keys that callers give them. Safe for concurrent use.
type Calls struct{ marks *weir.Limit }

// NewCalls returns what remembers calls for Life.
func NewCalls() *Calls { return &Calls{NewLimit("calls with a key", "call", Life, false)} }

// Kinds of calls, which are not taken for one another.
const (
	Check   = "check"
	Reserve = "reserve"
	Grant   = "grant"
)

// Op returns the mark of a call of a kind that asks r and says more beside, by its key. Its
// own key is a name, which lies beside what is charged.
func (c *Calls) Op(kind, key string, r *weir.Request, more ...string) weir.Op {
	name := sha256.Sum256([]byte(key))
	b := checks.AppendText(append(checks.AppendRequest(nil, r), byte(r.Verb)), kind)
	for _, text := range append(more, r.Lease) {
		b = checks.AppendText(b, text)
	}
	print := sha256.Sum256(b)
	return Op(c.marks, base64.RawURLEncoding.EncodeToString(name[:18]), int64(binary.LittleEndian.Uint64(print[:])%Most)+1)
}

// Mark has r, a call of a kind, be charged once under a key; without one, or where it looks
// only, it is decided as any other.
func (c *Calls) Mark(kind, key string, r *weir.Request) {
	if key != "" && r.Verb != weir.Peek {
		o := c.Op(kind, key, r)
		r.Mark = &o
	}
}

// AttachMark returns the op of a mark beside a counter.
func AttachMark(key string, mark weir.Op) weir.Op {
	mark.Key = neighbor.Key(key, mark.Key)
	return mark
}

// IsRepeated reports whether a call was made before, by the answer to its mark, nil for none.
func IsRepeated(mark *weir.Op) (bool, error) {
	switch {
	case mark == nil || mark.Decision.Limit == nil || mark.Decision.Allowed():
		return false, nil
	case Value(mark) != mark.Cost:
		return false, ErrMismatch
	}
	return true, nil
}

// MadeAt returns when a call was made, now or before, by the answer to its mark: in
// microseconds since the Unix epoch, by the store's clock.
func MadeAt(mark *weir.Op) int64 {
	return mark.Receipt() - micros.Of(mark.Limit.Period)
}
