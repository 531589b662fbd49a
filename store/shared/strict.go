package shared

import (
	"context"
	"math"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Strict decides one limit by remembered refusals only; else the store decides.
type strict struct {
	*Store
	limit *weir.Limit
	// remembers: what the store refuses stays refused until the instant that it names.
	remembers bool
}

var _ lot.Decider = (*strict)(nil)

// newStrict returns the decider of a limit. Refusals are not remembered where units come
// back at no instant that is known: of concurrency limits, elastic and penalizing ones,
// and of queues, as a caller who leaves one makes room at once.
func newStrict(s *Store, l *weir.Limit) *strict {
	t := l.Traits()
	d := &strict{s, l, t&(weir.Leases|weir.Sketches) == 0 && !l.Penalize && l.Pool == nil}
	switch l.Consistency.DenyCache {
	case params.DenyCacheOff:
		d.remembers = false
	case params.DenyCacheAuto:
		d.remembers = d.remembers && t&weir.Shapes == 0
	}
	return d
}

// Draw implements lot.Decider.
func (d *strict) Draw(_ context.Context, now clock.Node, o *weir.Op, _ *lot.Hold) (lot.Verdict, *lot.Flight) {
	if !d.remembers {
		return lot.Ask, nil
	}
	a, ok := d.refusals.Recall(d.table.TagForKey(o.Key, d.limit), d.limit, o.Cost, false, now)
	if !ok {
		return lot.Ask, nil
	}
	o.Answer = weir.Answer{Decision: a, Now: int64(d.clock.Latest(now))}
	return lot.Refused, nil
}

// Undo implements lot.Decider.
func (d *strict) Undo(clock.Node, *lot.Hold) {}

// Refund implements lot.Decider. A permit may be of a lot that was fetched while the limit
// was leased.
func (d *strict) Refund(now clock.Node, o *weir.Op) bool {
	return d.limit.Traits()&weir.Leases != 0 && d.permits.Release(now, o)
}

// Holds implements lot.Decider.
func (d *strict) Holds(now clock.Node, o *weir.Op) bool {
	return d.limit.Traits()&weir.Leases != 0 && d.permits.Holds(now, o)
}

// Learn implements lot.Decider.
func (d *strict) Learn(o *weir.Op, sent clock.Node) {
	life := int64(0)
	if d.remembers && transport.IsSpend(o) {
		life = math.MaxInt64
	}
	d.refusals.LearnAnswer(d.table.TagForKey(o.Key, d.limit), d.limit, o.Cost, sent, o.Decision, life)
}
