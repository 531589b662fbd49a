// Package permit decides concurrency limits by permits that the node fetches ahead.
//
// A lot is units that the store counts under a name, for a quarter of the period longer
// than a holder has a permit. The node hands them out to holders and takes them back:
//
//	           granted                    older than an eighth of the period:
//	[fetching] -------> [held] <-------+  renewed, with the same name and
//	    |               | | |  allowed |  the same units or fewer
//	    | no answer     | | +--------> [renewing]
//	    |               | |                | refused
//	    |               | |                v
//	    |               | +----------> [not open] no new holders
//	    |               |   reloaded,      |
//	    |               |   lower count    | released
//	    v               v                  v
//	  +-----------------------------------------+  what is free, idle or expired;
//	  | lot.Returns: the whole name, or the rest |  the rest stays under the name
//	  +-----------------------------------------+
//
//	           acquire, where the lot lives
//	           until now + period or longer
//	(nobody) ------------------------------> [holder of a unit of the lot, until now + period]
//	    ^                                          |   +--^ renewed
//	    +------------------------------------------+
//	       released, undone, or its time is over
//
// Who owns what, and when:
//
//   - A unit of a lot is free, and the entry's, or a holder's. Only acquire hands it out,
//     and only state.release takes it back.
//   - A flight, at most one of an entry, fetches and renews. It alone makes lots, sets
//     their Expiry later, and finds them lost. No lot loses units meanwhile, so a renewal
//     never asks for more than the store was asked to keep.
//   - A name is random and of one lot. What is late, twice or out of order has the store
//     count too much until the name ends there, never too little.
//   - A holder that the store has granted a permit under its own name is noted with no
//     lot: it renews and releases there.
//
// So a holder ends before its lot, by any clock, and a lot before the store's count of it:
// its life counts from when it was asked for, a 512th less. Where the node finds that time
// was lost, lots end by as much earlier and holders do not: it may not have passed for them. Whatever becomes of a node,
// all holders of all nodes never have more than the limit.
package permit

import (
	"context"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// Env is what the deciders of all leased concurrency limits share. It must not be changed
// while it is in use.
type Env struct {
	lot.Env
	// Fetched counts calls that brought or renewed permits.
	Fetched atomic.Uint64
}

// A Decider decides one leased concurrency limit. Safe for concurrent use.
type Decider struct {
	*Env
	*Terms
}

var _ lot.Decider = (*Decider)(nil)

// Draw implements lot.Decider. A holder that has a permit gets its time anew. What is held the
// node knows without asking.
func (d *Decider) Draw(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold) (lot.Verdict, *lot.Flight) {
	tag, g, e := d.Table.LockEntry(o.Key, o.Limit)
	free, isHolder, isStale := int64(0), false, false
	if s := stateOf(e); s != nil {
		var ok bool
		if ok, isStale = d.drawPermit(g, e, s, o, now, h); ok {
			g.Unlock()
			return lot.Charged, nil
		}
		free, isHolder = e.FreeUnits(), s.holders[o.ID] != nil
	}
	g.Unlock()
	nodes := d.Nodes()
	if d.limit.Count/nodes < lot.LeastShare || o.Cost > max(d.limit.Count/(d.parts*nodes), 1) || isHolder && !isStale || o.ID == 0 && o.Verb != weir.Peek {
		return lot.Ask, nil
	}
	if !isStale {
		if a, ok := d.Refusals.Recall(tag, d.limit, o.Cost, true, now); ok {
			a.Limit, a.Remaining = d.limit.From(weir.FromLease), a.Remaining+free
			d.AnswerOp(o, a, now, false)
			return lot.Refused, nil
		}
	}
	if o.Verb == weir.Peek {
		return lot.Ask, nil
	}
	return d.awaitFlight(ctx, now, o, h, tag)
}

// awaitFlight has o wait for a flight.
func (d *Decider) awaitFlight(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold, tag uint64) (lot.Verdict, *lot.Flight) {
	_, g, _ := d.Table.LockEntry(o.Key, o.Limit)
	defer g.Unlock()
	e, s := d.entryFor(g, tag, o.Key, now)
	if e == nil {
		return lot.Ask, nil
	}
	ok, isStale := d.drawPermit(g, e, s, o, now, h)
	need := o.Cost
	if isStale {
		need = 0 // a renewal is enough
	}
	switch {
	case ok:
		return lot.Charged, nil
	case s.holders[o.ID] == nil && !s.hasRoom(g, e):
		return lot.Ask, nil
	case e.Flight != nil:
	case !isStale && len(e.Lots()) == mostLots, !d.launchFlight(ctx, e, need):
		return lot.Ask, nil
	}
	s.waiting += need
	return lot.Wait, e.Flight
}

// entryFor returns the entry of a key, made if need be; nil if it has no room, or is another
// decider's until it lies idle. Requires: g.
func (d *Decider) entryFor(g *lot.Shard, tag uint64, key string, now clock.Node) (*lot.Entry, *state) {
	e := g.AddEntry(tag, key, d.limit, stateBytes, now)
	if e != nil && e.State == nil {
		e.State = newState(d.Terms, d.Clock, now)
		g.KeepEntry(e, d.idle, now)
	}
	if s := stateOf(e); s != nil {
		return e, s
	}
	return nil, nil
}

// drawPermit decides o by what is held, if it can; if not, it reports whether a lot would do that
// is too old. Requires: g.
func (d *Decider) drawPermit(g *lot.Shard, e *lot.Entry, s *state, o *weir.Op, now clock.Node, h *lot.Hold) (ok, isStale bool) {
	s.expireHolders(e, now)
	if o.Verb == weir.Peek {
		d.AnswerOp(o, s.describe(e, o.Limit, now), now, false)
		old := s.holders[o.ID]
		return e.FreeUnits() >= o.Cost || old != nil && old.units >= o.Cost, false
	}
	g.TouchEntry(e, now)
	if e.Limit != d.limit {
		// The limit was changed: what was fetched under a larger count is not handed out.
		for i := range e.Lots() {
			t := &e.Lots()[i]
			t.Closed = t.Closed || d.limit.Count < e.Limit.Count
		}
		e.Limit, s.terms, s.rest = d.limit, d.Terms, 0
	}
	s.trimLots(e, now)
	if ok, isStale = d.acquire(g, e, s, o, now, h); !ok {
		return false, isStale
	}
	s.least = min(s.least, e.FreeUnits())
	g.CountDraw()
	d.AnswerOp(o, s.describe(e, d.limit, now), now, true)
	if e.Flight == nil && (s.isLow(e, now) || d.oldLot(e, now) != nil) {
		d.launchFlight(context.Background(), e, 0) // ahead; if it cannot be, an acquire that finds nothing asks
	}
	return true, false
}

// acquire gives a holder units of a lot that lives as long as the holder may have them.
// Renewing what one has is allowed also in a lot that is not open. Requires: g.
func (d *Decider) acquire(g *lot.Shard, e *lot.Entry, s *state, o *weir.Op, now clock.Node, h *lot.Hold) (ok, isStale bool) {
	until, old := now.Add(d.period), s.holders[o.ID]
	if o.ID == 0 || old != nil && old.from == 0 {
		return false, false // it is the store's
	}
	for i := range e.Lots() {
		t := &e.Lots()[i]
		free, isOwn := t.Free, old != nil && old.from == t.ID
		if isOwn {
			free += old.units
		}
		switch {
		case free < o.Cost || !isOwn && !t.IsOpen():
			continue
		case t.Expiry < until:
			isStale = isStale || !t.Lost
			continue
		case old != nil:
			s.release(e, old)
		}
		if !s.hasRoom(g, e) {
			return false, false
		}
		s.addHolder(e, o.ID, o.Cost, t)
		if h != nil && old == nil {
			e.RecordDraw(h, &lot.Lot{ID: o.ID, Limit: d.limit}, o.Cost)
		}
		return true, false
	}
	return false, isStale
}

// describe returns what remains: what the node holds, and what the store had left when it
// was asked.
func (s *state) describe(e *lot.Entry, l *weir.Limit, now clock.Node) weir.Decision {
	a := weir.Decision{Limit: e.Known.LabelLimit(l, weir.FromLease), Remaining: e.FreeUnits() + e.Known.Remaining}
	if last := s.root.prev; last != &s.root {
		a.ResetAfter = micros.Duration(max(last.until-int64(now)+s.clock.LostTime(), 0))
	}
	return a
}

// Undo implements lot.Decider. A permit that was renewed stays.
func (d *Decider) Undo(now clock.Node, h *lot.Hold) {
	for i := range h.Parts {
		d.Release(now, &weir.Op{Key: h.Key(), Limit: h.Parts[i].Limit, ID: h.Parts[i].ID})
	}
	h.Parts = h.Parts[:0]
}

// Refund implements lot.Decider.
func (d *Decider) Refund(now clock.Node, o *weir.Op) bool { return d.Release(now, o) }

// holderOf locks the shard of o's key and returns it with the entry and o's holder, nil
// if the node knows none at now.
func (d *Env) holderOf(now clock.Node, o *weir.Op) (g *lot.Shard, e *lot.Entry, s *state, h *holder) {
	_, g, e = d.Table.LockEntry(o.Key, o.Limit)
	if s = stateOf(e); s != nil {
		s.expireHolders(e, now)
		h = s.holders[o.ID]
	}
	return g, e, s, h
}

// Holds reports whether Release would take a permit back.
func (d *Env) Holds(now clock.Node, o *weir.Op) bool {
	g, _, _, h := d.holderOf(now, o)
	defer g.Unlock()
	return h != nil && h.from != 0
}

// Release ends the time of o's holder, under whatever version of the limit it got its
// permit. It reports whether that was of the node; if not, the store releases it.
func (d *Env) Release(now clock.Node, o *weir.Op) bool {
	g, e, s, h := d.holderOf(now, o)
	defer g.Unlock()
	if h == nil {
		return false
	}
	g.TouchEntry(e, now)
	isOwn := h.from != 0
	s.release(e, h)
	s.trimLots(e, now)
	if isOwn {
		d.AnswerOp(o, s.describe(e, o.Limit, now), now, true)
	}
	return isOwn
}

// Learn implements lot.Decider. A permit that the store has granted the node releases
// there. What it holds is added to what remains.
func (d *Decider) Learn(o *weir.Op, sent clock.Node) {
	tag, g, e := d.Table.LockEntry(o.Key, o.Limit)
	now, left, s := d.Clock.Now(), o.Decision, stateOf(e)
	if o.Verb == weir.Refund {
		left.RetryAfter = 0 // that there was none to end refuses nobody
	}
	isGranted := o.Charged && left.Allowed() && o.Verb != weir.Refund && o.ID != 0
	if isGranted {
		e, s = d.entryFor(g, tag, o.Key, now)
	}
	if s != nil {
		e.Known.Update(left, sent, now)
		if isGranted {
			if old := s.holders[o.ID]; old != nil {
				s.release(e, old)
			}
			if s.hasRoom(g, e) {
				s.addHolder(e, o.ID, o.Cost, nil)
			}
		}
		o.Answer = e.AddFree(o.Answer)
	}
	g.Unlock()
	d.Refusals.LearnAnswer(tag, d.limit, o.Cost, sent, left, d.refusal(sent, now))
}
