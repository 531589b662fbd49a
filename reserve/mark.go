package reserve

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/params"
)

// An outcome is what a reservation was settled with. A mark counts that many: none is zero.
// Costs near weir.MaxCost are taken for one another.
type outcome int64

// canceled is the outcome of a reservation that was canceled.
const canceled outcome = 1

// committed returns the outcome of a commit.
func committed(actual int64) outcome { return canceled + 1 + outcome(min(actual, once.Most-2)) }

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
	return once.NewLimit("settled reservations", "reserve", ttl+settleSlack, alone)
}

// settlingOp returns the op that settles t at p with o, while t lasts for so long.
func (s *Reserver) settlingOp(t *ticket, p *slot, ttl time.Duration, o outcome) weir.Op {
	l := s.marks
	switch {
	case ttl > s.ttl: // it was reserved where they last longer
		l = newMark(min(ttl, maxTTL), p.alone)
	case p.alone:
		l = s.ownMarks
	}
	return once.Op(l, neighbor.Key(p.key, base64.RawURLEncoding.EncodeToString(t.id[:])), int64(o))
}

// readSettled returns what t was settled with at a slot, zero if it was not, and the
// store's time.
func (s *Reserver) readSettled(ctx context.Context, t *ticket, p *slot) (settled outcome, now int64, err error) {
	ops := []weir.Op{s.settlingOp(t, p, 0, canceled)}
	ops[0].Verb, ops[0].Headroom = weir.Peek, 0
	d, err := s.limiter.Apply(ctx, ops)
	switch {
	case err != nil:
		return 0, 0, err
	case d.Degraded():
		return 0, 0, ErrUnavailable
	}
	return outcome(once.Value(&ops[0])), ops[0].Now, nil
}

// settleSlot settles t at a slot with o, and returns o, or what it was settled with there
// before.
func (s *Reserver) settleSlot(ctx context.Context, t *ticket, p *slot, o outcome, now int64) (outcome, error) {
	ops := append([]weir.Op{s.settlingOp(t, p, micros.Duration(t.expires-now), o)}, p.ops...)
	d, err := s.limiter.Apply(ctx, ops)
	switch m := ops[0].Decision; {
	case err != nil:
		return 0, err
	case d.Allowed():
		return o, nil
	case m.Degraded():
		return 0, ErrUnavailable
	default:
		return outcome(once.Value(&ops[0])), nil
	}
}

// idOf returns the id of the reservation that a call with a mark made at an instant.
func idOf(mark *weir.Op, at int64) (id [16]byte) {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(mark.Key), uint64(at)))
	copy(id[:], sum[:])
	return id
}

// chargedAt returns ops as they were charged at an instant, for all that is known of it now:
// each as if to a key that was never seen, so that its units are taken to flow back as early
// as they can have. A share that may have been borrowed instead is left out.
func chargedAt(at int64, ops []weir.Op) (charged []weir.Op) {
	for _, o := range ops {
		if o.Verb != weir.Spend || o.Role == weir.Own || o.Role == weir.Shadow || o.Role == weir.Ban || o.Role == weir.Deny {
			continue
		}
		d := o.Limit.Algorithm.Step(make([]int64, o.Limit.Cells), o.Limit, weir.Ask{Now: at, Cost: o.Cost, Verb: weir.Force})
		// A window that began with a request before, and has not ended, ends when it says.
		if end := o.Receipt(); o.Limit.Anchor == params.AnchorFirst && o.Decision.ResetAfter > 0 && end-micros.Of(o.Limit.Period) <= at {
			d.ResetAfter = micros.Duration(end - at)
		}
		o.Answer = weir.Answer{Decision: d, Now: at, Charged: true}
		charged = append(charged, o)
	}
	return charged
}
