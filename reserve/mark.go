package reserve

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/params"
)

// An outcome is what a reservation was settled with. A mark counts that many: none is zero.
type outcome int64

// canceled is the outcome of a reservation that was canceled.
const canceled outcome = 1

// markCount is the count of the limit that a mark is, more than any outcome but those of
// costs near weir.MaxCost, which are taken for one another.
const markCount = 1 << 52

// committed returns the outcome of a commit.
func committed(actual int64) outcome { return canceled + 1 + outcome(min(actual, markCount-2)) }

// actual returns the cost that was settled.
func (o outcome) actual() int64 { return max(int64(o-canceled-1), 0) }

// A slot is where the counters of one key lie, in the store that nodes share or in that of
// the node: what is done there in one call is done as a whole.
type slot struct {
	key   string
	alone bool      // the node counts alone
	ops   []weir.Op // correct what was charged there
}

// newMark returns the limit of marks of reservations that last so long. Their counters lie
// beside those that they say were settled.
func newMark(ttl time.Duration, alone bool) *weir.Limit {
	l := &weir.Limit{
		Name: "settled reservations", Scope: "\x1freserve", Algorithm: algorithm.FixedWindow,
		Count: markCount, Period: ttl.Truncate(time.Microsecond) + settleSlack, Params: params.Params{Anchor: params.AnchorFirst},
		// Two nodes that each marked on its own would settle twice, and so would two
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

// mark returns the op on the mark of t at p, while t lasts for so long.
func (s *Reserver) mark(t *ticket, p *slot, ttl time.Duration) weir.Op {
	o := weir.Op{Key: neighbor.Key(p.key, base64.RawURLEncoding.EncodeToString(t.id[:])), Limit: s.marks}
	switch {
	case ttl > s.ttl: // it was reserved where they last longer
		o.Limit = newMark(min(ttl, MaxTTL), p.alone)
	case p.alone:
		o.Limit = s.ownMarks
	}
	return o
}

// look returns what t was settled with at a slot, zero if it was not, and the
// store's time.
func (s *Reserver) look(ctx context.Context, t *ticket, p *slot) (settled outcome, now int64, err error) {
	ops := []weir.Op{s.mark(t, p, 0)}
	ops[0].Cost, ops[0].Verb = 1, weir.Peek
	d, err := s.limiter.Apply(ctx, ops)
	switch {
	case err != nil:
		return 0, 0, err
	case d.Degraded():
		return 0, 0, ErrUnavailable
	}
	return outcome(markCount - d.Remaining), ops[0].Now, nil
}

// settleSlot settles t at a slot with o, and returns o, or what it was settled with there
// before.
func (s *Reserver) settleSlot(ctx context.Context, t *ticket, p *slot, o outcome, now int64) (outcome, error) {
	// It passes only while nothing is counted.
	mark := s.mark(t, p, micros.Duration(t.expires-now))
	mark.Cost, mark.Headroom = int64(o), markCount-int64(o)
	ops := append([]weir.Op{mark}, p.ops...)
	d, err := s.limiter.Apply(ctx, ops)
	switch m := ops[0].Decision; {
	case err != nil:
		return 0, err
	case d.Allowed():
		return o, nil
	case m.Degraded():
		return 0, ErrUnavailable
	default:
		return outcome(markCount - m.Remaining), nil
	}
}
