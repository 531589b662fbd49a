// Package leased decides limits by units that the node fetches ahead.
//
// An entry of the table goes through these states, which are seen from what it has: lots
// with free units, a flight, and a refusal in the memory that all deciders share.
//
//	          draw                granted
//	[cold] ----------> [fetching] -------> [warm] --+ draw <= units
//	   ^                | |     ^            |  |   | (under a quarter left:
//	   | no answer      | |     | draw > units  |<--+  fetch ahead, nobody waits)
//	   +----------------+ |     +------------+  |
//	   |                  | refused             | expiry, idle, evicted, reloaded
//	   |                  v                     |
//	   |              [refused] -- until -->+   |
//	   +<-----------------------------------+---+
//
// A draw that what is held does not cover has one way to go on, shortfall: refused, wait
// for the flight, or ask the store. An answer has one way in, adopt, however late it is
// and whether it is of this fetch or of one whose answer was lost.
package leased

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// Env is what the deciders of all leased limits share. It must not be changed while it is
// in use.
type Env struct {
	lot.Env
	// IsSteady reports whether no lot can be left, of so many microseconds of life, from when
	// the nodes were fewer.
	IsSteady func(life int64) bool
	// IsRegistered reports whether the others count this node: else they may use a whole
	// burst while it holds units.
	IsRegistered func() bool
	// Fetched counts calls that brought units.
	Fetched atomic.Uint64
}

// A Decider decides one leased limit. Safe for concurrent use.
type Decider struct {
	*Env
	*Terms
}

var _ lot.Decider = (*Decider)(nil)

// A state is what a leased limit adds to an entry.
type state struct {
	number number
	// scarce: units are used up as fast as they flow back. A lot is then fetched whole or
	// not at all, so that one call brings many units.
	scarce bool
	// rest is until when the store is not asked ahead, as it has refused.
	rest clock.Node
}

// AskBy returns the limit by which the store is asked for a cost. More than the burst
// that is left to it there passes by the whole burst, as such a request must be able to
// pass; and so does each while no node can hold units.
func (d *Decider) AskBy(cost int64) *weir.Limit {
	if !d.flows || cost > d.by.Burst || d.limit.Burst/d.Nodes() < lot.LeastShare && d.IsSteady(d.life) {
		return d.limit
	}
	return d.by
}

// Draw implements lot.Decider. What is held the node knows without asking.
func (d *Decider) Draw(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold) (lot.Verdict, *lot.Flight) {
	tag, g, e := d.Table.Find(o.Key, d.limit)
	charged, free := e != nil && e.Limit == d.limit && d.draw(g, e, o, now, h), int64(0)
	if e != nil && !charged {
		free = e.Free()
	}
	g.Unlock()
	if charged {
		return lot.Charged, nil
	}
	return d.shortfall(ctx, now, o, h, tag, free)
}

// draw decides o by what is held, if it can. Requires: g.
func (d *Decider) draw(g *lot.Shard, e *lot.Entry, o *weir.Op, now clock.Node, h *lot.Hold) bool {
	if o.Verb == weir.Peek {
		e.Expire(now)
		free := e.Free()
		d.Answer(o, d.describe(e, free, now), now, false)
		return free >= o.Cost
	}
	g.Touch(e, now)
	free, ok := e.Draw(o.Cost, now, h)
	if !ok {
		return false
	}
	g.CountDraw()
	d.Answer(o, d.describe(e, free, now), now, true)
	lots := e.Lots()
	if last := &lots[len(lots)-1]; e.Flight == nil && free < last.Fetched/4 && now >= e.State.(*state).rest {
		d.launch(context.Background(), e, 1) // ahead; if it cannot be, a draw that finds nothing asks
	}
	if h != nil {
		// What is given back is named by what it was drawn from, the newest; of a sliding
		// window the oldest: to a later one the units would count for too short a time.
		first, named := &h.Parts[0], &h.Parts[len(h.Parts)-1]
		if d.by.Grain > 0 {
			named = first
		}
		if named.ID > o.Now {
			o.Decision.ResetAfter, o.ChargedAt = micros.Duration(named.ID-o.Now), int64(first.Charged)
		}
	}
	return true
}

// shortfall goes on where too little is held: free units.
func (d *Decider) shortfall(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold, tag uint64, free int64) (lot.Verdict, *lot.Flight) {
	nodes := d.Nodes()
	isStrict := d.limit.Burst/nodes < lot.LeastShare || d.flows && !d.IsRegistered() || o.Cost > max(d.by.Burst/(d.parts*nodes), 1)
	if !isStrict || o.Verb != weir.Peek && d.limit.Consistency.DenyCache != params.DenyCacheOff {
		if a, ok := d.Refusals.Recall(tag, d.limit, o.Cost, !isStrict, now); ok {
			a.Limit, a.Remaining = d.held, a.Remaining+free
			d.Answer(o, a, now, false)
			return lot.Refused, nil
		}
	}
	if isStrict || o.Verb == weir.Peek {
		return lot.Ask, nil
	}
	_, g, _ := d.Table.Find(o.Key, d.limit)
	defer g.Unlock()
	e := d.enter(g, tag, o.Key, now)
	if e != nil && d.draw(g, e, o, now, h) {
		return lot.Charged, nil
	}
	if e == nil || e.Flight == nil && !d.launch(ctx, e, o.Cost) {
		return lot.Ask, nil
	}
	return lot.Wait, e.Flight
}

// enter returns the entry of a key under this limit, made if need be; nil if it has no
// room, or is another decider's until it lies idle. Lots of an earlier version of the limit
// are used up soon, or not at all. Requires: g.
func (d *Decider) enter(g *lot.Shard, tag uint64, key string, now clock.Node) *lot.Entry {
	e := g.Add(tag, key, d.limit, int64(unsafe.Sizeof(state{})), now)
	if e == nil {
		return nil
	}
	s, ok := e.State.(*state)
	switch {
	case e.State == nil:
		e.State = &state{}
		g.Keep(e, d.life, now)
	case !ok:
		return nil
	case e.Limit != d.limit:
		e.ExpireBy(now.Add(d.remainder(e.Limit)))
		e.Limit, s.scarce, s.rest = d.limit, false, 0
	}
	return e
}

// describe returns what remains: free units that the node holds, and what the store had left when it
// was asked, but for that of a window that is over.
func (d *Decider) describe(e *lot.Entry, free int64, now clock.Node) weir.Decision {
	a := weir.Decision{Limit: d.held, Remaining: free, ResetAfter: micros.Duration(int64(max(e.Known.Reset-now, 0)))}
	if now < e.Known.Reset || d.flows {
		a.Remaining += e.Known.Remaining
	}
	return a
}

// Undo implements lot.Decider.
func (d *Decider) Undo(now clock.Node, h *lot.Hold) { d.Table.Undo(h, now) }

// Holds implements lot.Decider.
func (d *Decider) Holds(now clock.Node, o *weir.Op) bool {
	_, g, e := d.Table.Find(o.Key, d.limit)
	defer g.Unlock()
	return e != nil && (o.ID == 0 || d.Clock.Latest(now) < clock.Store(o.ID)) && e.Holds(d.limit, o.Cost, o.ID, now)
}

// Refund implements lot.Decider. What no longer counts is not of what is held now.
func (d *Decider) Refund(now clock.Node, o *weir.Op) bool {
	tag, g, e := d.Table.Find(o.Key, d.limit)
	if e == nil || o.ID != 0 && d.Clock.Latest(now) >= clock.Store(o.ID) || !e.Refund(d.limit, o.Cost, o.ID, now) {
		g.Unlock()
		return false
	}
	d.Answer(o, d.describe(e, e.Free(), now), now, true)
	g.Unlock()
	d.Refusals.Refund(tag, d.limit, now, o.Decision)
	return true
}

// Learn implements lot.Decider. What is held remains too: a look says so.
func (d *Decider) Learn(o *weir.Op, sent clock.Node) {
	tag, g, e := d.Table.Find(o.Key, d.limit)
	a := o.Decision
	if e != nil && e.Limit == d.limit {
		if e.Known.Update(a, sent, d.Clock.Now()); o.Verb == weir.Peek {
			o.Decision.Remaining += e.Free()
		}
	}
	g.Unlock()
	d.Refusals.Learn(tag, d.limit, o.Cost, sent, a, d.brief)
}
