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
	// moved: what is held, or some of it, was fetched from a server that keeps the key while
	// its own is lost.
	moved bool
	// rest is until when the store is not asked ahead, as it has refused.
	rest clock.Node
	// A key is busy from since on, if it was asked for again and again until last.
	since, last clock.Node
}

// Draw implements lot.Decider. What is held the node knows without asking.
func (d *Decider) Draw(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold) (lot.Verdict, *lot.Flight) {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	charged, free, flies := e != nil && e.Limit == d.limit && d.drawHeld(g, e, o, now, h), int64(0), false
	if e != nil && !charged {
		free, flies = e.FreeUnits(), e.Flight != nil
	}
	g.Unlock()
	if charged {
		return lot.Charged, nil
	}
	return d.shortfall(ctx, now, o, h, tag, free, flies)
}

// drawHeld decides o by what is held, if it can. Requires: g.
func (d *Decider) drawHeld(g *lot.Shard, e *lot.Entry, o *weir.Op, now clock.Node, h *lot.Hold) bool {
	if o.Verb == weir.Peek {
		e.ExpireLots(now)
		free := e.FreeUnits()
		d.AnswerOp(o, d.describe(e, free, now), now, false)
		return free >= o.Cost
	}
	g.TouchEntry(e, now)
	free, ok := e.DrawUnits(o.Cost, now, h)
	if !ok {
		return false
	}
	g.CountDraw()
	a, chargedAt := d.describe(e, free, now), clock.Store(0)
	lots := e.Lots()
	if last := &lots[len(lots)-1]; e.Flight == nil && free < last.Fetched/4 && now >= e.State.(*state).rest {
		d.launchFetch(context.Background(), e, 1, now) // ahead; if it cannot be, a draw that finds nothing asks
	}
	if h != nil {
		// What is given back is named by what it was drawn from, the newest; of a sliding
		// window the oldest: to a later one the units would count for too short a time.
		first, named := &h.Parts[0], &h.Parts[len(h.Parts)-1]
		if d.by.Grain > 0 {
			named = first
		}
		if wall := int64(d.Clock.Latest(now)); named.ID > wall {
			a.ResetAfter, chargedAt = micros.Duration(named.ID-wall), first.Charged+clock.Store(d.earlyMargin())
		}
	}
	o.Answer.Set(a, int64(d.Clock.Latest(now)), int64(chargedAt), true, false)
	return true
}

// shortfall goes on where too little is held: free units, and flies that more are on the way.
// What is held counts: the store is asked for the rest, and refuses that.
func (d *Decider) shortfall(ctx context.Context, now clock.Node, o *weir.Op, h *lot.Hold, tag uint64, free int64, flies bool) (lot.Verdict, *lot.Flight) {
	nodes := d.Nodes()
	isStrict := d.limit.Burst/nodes < lot.LeastShare || o.Cost > max(d.by.Burst/(d.parts*nodes), 1)
	if !isStrict || o.Verb != weir.Peek && d.limit.Consistency.DenyCache != params.DenyCacheOff {
		if a, ok := d.Refusals.Recall(tag, d.limit, o.Cost-free, !isStrict, now); ok {
			a.Limit, a.Remaining = d.held, a.Remaining+free
			d.AnswerOp(o, a, now, false)
			return lot.Refused, nil
		}
	}
	if isStrict && free == 0 && !flies || o.Verb == weir.Peek {
		return lot.Ask, nil
	}
	_, g, _ := d.Table.LockEntry(o.Key, d.limit)
	defer g.Unlock()
	e := d.entryFor(g, tag, o.Key, now)
	if e != nil && d.drawHeld(g, e, o, now, h) {
		return lot.Charged, nil
	}
	if e == nil || e.Flight == nil && !d.launchFetch(ctx, e, o.Cost-e.FreeUnits(), now) {
		return lot.Ask, nil
	}
	return lot.Wait, e.Flight
}

// entryFor returns the entry of a key under this limit, made if need be; nil if it has no
// room, or is another decider's until it lies idle. Lots of an earlier version of the limit
// are used up soon, or not at all. Requires: g.
func (d *Decider) entryFor(g *lot.Shard, tag uint64, key string, now clock.Node) *lot.Entry {
	e := g.AddEntry(tag, key, d.limit, int64(unsafe.Sizeof(state{})), now)
	if e == nil {
		return nil
	}
	s, ok := e.State.(*state)
	switch {
	case e.State == nil:
		e.State = &state{}
		g.KeepEntry(e, d.life, now)
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
	if e.State.(*state).moved {
		a.Limit = d.limit.From(weir.FromSuccessor)
	}
	if now < e.Known.Reset || d.flows {
		a.Remaining += e.Known.Remaining
	}
	return a
}

// Undo implements lot.Decider.
func (d *Decider) Undo(now clock.Node, h *lot.Hold) { d.Table.UndoDraw(h, now) }

// Holds implements lot.Decider.
func (d *Decider) Holds(now clock.Node, o *weir.Op) bool {
	_, g, e := d.Table.LockEntry(o.Key, d.limit)
	defer g.Unlock()
	return e != nil && (o.ID == 0 || d.Clock.Latest(now) < clock.Store(o.ID)) && e.CanPutBack(d.limit, o.Cost, o.ID, now)
}

// Refund implements lot.Decider. What no longer counts is not of what is held now.
func (d *Decider) Refund(now clock.Node, o *weir.Op) bool {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	if e == nil || o.ID != 0 && d.Clock.Latest(now) >= clock.Store(o.ID) || !e.PutBack(d.limit, o.Cost, o.ID, now) {
		g.Unlock()
		return false
	}
	d.AnswerOp(o, d.describe(e, e.FreeUnits(), now), now, true)
	g.Unlock()
	d.Refusals.ForgetRefunded(tag, d.limit, now, o.Decision)
	return true
}

// Learn implements lot.Decider. What is held remains too, and may pass: a look says so.
func (d *Decider) Learn(o *weir.Op, sent clock.Node) {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	a := o.Decision
	if e != nil && e.Limit == d.limit {
		if e.Known.Update(a, sent, d.Clock.Now()); o.Verb == weir.Peek {
			seen := e.AddFree(o.Answer).Decision
			if seen.Remaining >= o.Cost {
				seen.RetryAfter = 0
			}
			o.Answer = o.WithDecision(seen)
		}
	}
	g.Unlock()
	d.Refusals.LearnAnswer(tag, d.limit, o.Cost, sent, a, d.brief)
}
