package tier

import (
	"context"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// takeLease decides one op by the lease of its key: a spend, a look, or units
// given back. Of a concurrency limit it reports whether a place was renewed.
func (s *Store) takeLease(ctx context.Context, o *weir.Op) (renewed bool, err error) {
	switch {
	case o.Limit.Traits()&weir.Leases != 0:
		return s.takeSlot(ctx, o)
	case o.Verb == weir.Refund:
		return false, s.refundLease(ctx, o)
	case o.Verb == weir.Peek:
		return false, s.peekLease(ctx, o)
	}
	return false, s.spendLease(ctx, o)
}

func (s *Store) spendLease(ctx context.Context, o *weir.Op) error {
	p, err := s.plans.of(o.Limit)
	if err != nil {
		return err
	}
	tag := s.tag(o.Key, o.Limit)
	d, receipt, charged, now, ok := s.spendWarm(tag, o)
	if !ok {
		spend := s.spendLeased
		if p.mode == params.ConsistencyEventual {
			spend = s.spendCounted
		}
		if d, now, err = spend(ctx, p, tag, o.Key, o.Cost); err != nil {
			return s.oneAway(ctx, o, err)
		}
		receipt, charged = s.receipt(tag, o)
	}
	o.Decision, o.Now, o.ChargedAt, o.Charged, o.Borrowed = p.counted(d), now, 0, d.Allowed(), false
	if receipt > now && d.Guarantee().Source == p.source {
		// What is given back is named by the fetch that it came from.
		o.Decision.ResetAfter, o.ChargedAt = micros.Duration(receipt-now), charged
	}
	return nil
}

// spendWarm is warm for an op that can be undone.
func (s *Store) spendWarm(tag uint64, o *weir.Op) (d weir.Decision, receipt, charged, wall int64, ok bool) {
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key, o.Limit)
	if e == nil {
		return weir.Decision{}, 0, 0, 0, false
	}
	d, ok = s.spendHeld(g, e, o.Cost, s.link.now())
	now, wall := s.link.now(), s.wall()
	return d, e.receipt(now, wall), e.charged(now), wall, ok
}

// isWarm reports whether the node holds units for o.
func (s *Store) isWarm(tag uint64, o *weir.Op) bool {
	if o.Limit.Traits()&weir.Leases != 0 {
		return s.slots.has(tag, o, s.link.now())
	}
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key, o.Limit)
	switch {
	case e == nil:
		return false
	case e.tally != nil:
		return e.tally.open(s.link.now()) >= o.Cost
	}
	return e.balance() >= o.Cost
}

// receipt returns the receipt of the units that were spent last. Of two lots of a
// sliding window it is the earlier one: given back to the later, units would count
// for too short a time. Those of other windows are of one window. What is counted on
// the node is charged to the window of its time, wall.
func (e *lease) receipt(now, wall int64) int64 {
	t, p := e.tally, e.plan
	switch {
	case t == nil:
		a, b := e.lots[0].receipt, e.lots[1].receipt
		if p.grained != nil && min(a, b) > wall {
			return min(a, b)
		}
		return max(a, b)
	case p.flows():
		// When all that the store knows of and all that it does not has flowed back.
		return wall + max(e.reset-now, 0) + p.inflowTime(max(t.untold, 0)+t.telling)
	}
	if wall >= p.lender.SpendBy(p.limit, t.receipt) {
		t.receipt = p.receiptAt(wall)
	}
	return t.named(p)
}

// charged returns when the shared store charged the units that were spent last, or
// earlier; 0 if it has not.
func (e *lease) charged(now int64) (at int64) {
	for i := range e.lots {
		if t := &e.lots[i]; t.fetched > 0 && now < t.expiry && (at == 0 || t.charged < at) {
			at = t.charged
		}
	}
	return at
}

// receipt returns the receipt of the units of a key that were spent last, and when
// they were charged.
func (s *Store) receipt(tag uint64, o *weir.Op) (receipt, charged int64) {
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.get(tag, o.Key, o.Limit); e != nil {
		now := s.link.now()
		return e.receipt(now, s.wall()), e.charged(now)
	}
	return 0, 0
}

// refundLease gives units back to the lot that they were spent from, or, if the
// node no longer holds it, to the shared store. It is carried out even if the caller
// goes.
func (s *Store) refundLease(ctx context.Context, o *weir.Op) error {
	if s.putBack(o) {
		return nil
	}
	return s.takeSharedOne(s.link.Detach(ctx), o)
}

// refundOnNode gives units back to the lot that they were spent from, or, if the node
// no longer holds it, to the shared store in the background.
func (s *Store) refundOnNode(o *weir.Op) {
	if o.Limit.Traits()&weir.Leases != 0 && s.releaseHeld(o) || s.putBack(o) {
		return
	}
	s.returnLater(o)
}

// holdsCharge reports whether the node holds what the units of a refund were spent
// from.
func (s *Store) holdsCharge(o *weir.Op) bool {
	if o.Limit.Traits()&weir.Leases != 0 {
		return s.holdsSlot(o)
	}
	g, e := s.ofCharge(o)
	if g == nil {
		return false
	}
	defer g.mu.Unlock()
	return e.lotOf(o.Cost, o.ID, s.link.now()) != nil || e.tally != nil && e.tally.takesBack(e.plan, o.Cost, o.ID)
}

// putBack gives units back to what they were spent from, and reports whether the node
// holds that.
func (s *Store) putBack(o *weir.Op) bool {
	g, e := s.ofCharge(o)
	if g == nil {
		return false
	}
	defer g.mu.Unlock()
	now := s.link.now()
	e.refused, e.ask = 0, 0
	t := e.lotOf(o.Cost, o.ID, now)
	switch {
	case t != nil:
		t.units += o.Cost
	case e.tally == nil || !e.tally.takesBack(e.plan, o.Cost, o.ID):
		return false
	default:
		e.tally.untell(e.plan, o.Cost, o.ID)
	}
	o.Decision, o.Now, o.Charged, o.Borrowed = e.describe(now), s.wall(), true, false
	return true
}

// ofCharge returns the lease of the key of a refund, and its shard, which is locked.
// They are nil if the node has none, or if the charge no longer counts: what the node
// holds now was fetched after.
func (s *Store) ofCharge(o *weir.Op) (*leaseShard, *lease) {
	if o.Limit.Traits()&weir.Leases != 0 || o.ID != 0 && s.wall() >= o.ID {
		return nil, nil
	}
	tag := s.tag(o.Key, o.Limit)
	g := s.leases.shard(tag)
	g.mu.Lock()
	if e := g.get(tag, o.Key, o.Limit); e != nil {
		return g, e
	}
	g.mu.Unlock()
	return nil, nil
}

// returnLater answers a refund and sees to it that the shared store gets the units
// back in the background.
func (s *Store) returnLater(o *weir.Op) {
	b := giveBack{key: strings.Clone(o.Key), limit: o.Limit, units: o.Cost, receipt: o.ID, charged: o.ChargedAt}
	switch {
	case o.Limit.Traits()&weir.Leases == 0:
		b.bound = o.ID != 0
	case o.NewLease:
		b.ends = later(s.link.now(), micros.Of(o.Limit.Period))
	}
	s.leases.returns.add([]giveBack{b})
	s.leases.returns.hurry()
	o.Decision, o.Now, o.Charged, o.Borrowed = weir.Decision{Limit: o.Limit}, s.wall(), true, false
}

// peekLease looks at what the shared store has left and adds what the node holds.
// What the node can spend it knows without asking.
func (s *Store) peekLease(ctx context.Context, o *weir.Op) error {
	tag := s.tag(o.Key, o.Limit)
	if d, held, refused := s.look(tag, o); held >= o.Cost || refused {
		o.Decision, o.Now, o.Charged, o.Borrowed = d, s.wall(), false, false
		return nil
	}
	if err := s.takeSharedOne(ctx, o); err != nil {
		return err
	}
	if _, held, _ := s.look(tag, o); !o.Decision.Degraded() {
		o.Decision.Remaining += held
	}
	return nil
}

// told notes in the lease of a key what the shared store has left, as it has just
// said.
func (s *Store) told(o *weir.Op, sent int64) {
	tag := s.tag(o.Key, o.Limit)
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.get(tag, o.Key, o.Limit); e != nil {
		e.heardOf(o.Decision, sent, s.link.now())
	}
}

// look returns what the lease of a key says of an op, and what it holds.
func (s *Store) look(tag uint64, o *weir.Op) (d weir.Decision, held int64, refused bool) {
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key, o.Limit)
	if e == nil {
		return weir.Decision{}, 0, false
	}
	now := s.link.now()
	s.expire(e, now)
	if held = e.balance(); held < o.Cost && e.refuses(o.Cost, now) {
		return e.refusal(now), held, true
	}
	return e.describe(now), held, false
}
