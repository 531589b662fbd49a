// Package eventual decides limits on the node, which reports to the store afterwards, in
// numbered pushes. The store never counts less than was admitted by more than a slack,
// which it lends itself.
//
// A tally is what the node has admitted of a key and the store may not know of: units in
// no push yet, and those of the push under way. Slack is a lot of what the limit may be
// overshot by.
//
//	                  push, asks for slack         answered
//	[unknown] -- draw ------------------> [pushing 0] ------> [clean]
//	                                                           |   ^
//	           draw, cost <= min(slack, remaining) - tally     |   | answered, or
//	                                  +--+                     v   | found counted
//	                                  |  v   half the slack,       |
//	      slack's window ends,     [dirty] -- or an interval --> [pushing n] <--+
//	    +---- or it was given up --   |  ^                         |  no answer | n again
//	    v                             |  |                         v            |
//	[no slack] <----------------------+  +---- 80 seconds ---- [unsure n] ------+
//	    |                                     slack -= units
//	    +--- draw: the store decides, or a push brings slack
//
// Invariant: tally <= slack, and all nodes' slack of a window together is at most what the
// limit may be overshot by. Once the store has counted the whole limit, a node that asks
// hears that nothing remains; until it asks it admits at most its slack.
//
// Who owns what:
//
//   - The store owns the slack: it lends a lot of it as it charges any limit, so what nodes
//     think of each other's number changes how much one gets and never the sum. A lot ends
//     with its window, and leaves the table as lots do, by surrender, less what is in the
//     tally.
//   - A push is owned by its number, in a transport.Series. So it is repeated until it is answered,
//     and counted once by a server, however often and late it arrives.
//   - Units of a push without an answer stay in the tally: nobody knows whether they are
//     counted. When the store could forget the mark, 80 seconds after the series began, they
//     are taken off the slack for good.
//   - A refund of units that the store has counted is a credit, a tally of less than none:
//     what is admitted next uses it up, and in an interval the store gets it back, once the push
//     before it is counted. It ends with its window, that of a bucket at its receipt.
//   - A refund that the store decides waits for the pushes that have what it refunds: before
//     them it would give nothing back, and they are counted for good.
//
// An entry with something to push has a flight, or is pinned to the table and in the list
// of what is due. The shard of the entry guards its tally; the list has a lock of its
// own, which is taken after that.
package eventual

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// Env is what the deciders of all eventual limits share. It must not be changed while it
// is in use.
type Env struct {
	lot.Env
	// Overshot is the most units above a limit that the store was seen to have counted.
	Overshot atomic.Int64

	mu  sync.Mutex
	due []dueItem // guarded by mu
}

// A Decider decides one eventual limit. Safe for concurrent use.
type Decider struct {
	*Env
	*Terms
}

var _ lot.Decider = (*Decider)(nil)

// Draw implements lot.Decider.
func (d *Decider) Draw(_ context.Context, now clock.Node, o *weir.Op, h *lot.Hold) (lot.Verdict, *lot.Flight) {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	charged := d.drawByTally(g, e, o, now, h)
	g.Unlock()
	if charged {
		return lot.Charged, nil
	}
	return d.shortfall(now, o, h, tag)
}

// drawByTally decides o by the tally, if it can. Requires: g.
func (d *Decider) drawByTally(g *lot.Shard, e *lot.Entry, o *weir.Op, now clock.Node, h *lot.Hold) bool {
	t, wall := d.tallyOf(e), int64(d.Clock.Latest(now))
	if t == nil {
		return false
	}
	t.expireSlack(e, now, wall)
	left := t.unitsLeft(e)
	if o.Verb == weir.Peek {
		d.answerByTally(o, e, t, now, false)
		return left >= o.Cost
	}
	g.TouchEntry(e, now)
	switch {
	case left >= o.Cost:
		g.CountDraw()
	case e.Known.Received > 0, !d.limit.Consistency.Optimistic, t.open+o.Cost > d.slackShare():
		return false
	}
	t.addUnits(e, o.Cost)
	if e.Flight != nil || !t.isPushDue(e) || !d.launchPush(e, t) {
		d.enqueue(e, t, now)
	}
	d.answerByTally(o, e, t, now, true)
	receipt := t.receiptOf(e, now, wall)
	a := o.Decision
	a.ResetAfter = micros.Duration(max(receipt-wall, 0))
	o.Answer = o.WithDecision(a)
	if h != nil {
		e.RecordDraw(h, &lot.Lot{ID: receipt, Limit: d.limit, Charged: clock.Store(wall)}, o.Cost)
	}
	return true
}

// shortfall goes on where too little may be admitted without the store.
func (d *Decider) shortfall(now clock.Node, o *weir.Op, h *lot.Hold, tag uint64) (lot.Verdict, *lot.Flight) {
	isStrict := d.slackShare() < o.Cost
	if !isStrict || o.Verb != weir.Peek && d.limit.Consistency.DenyCache != params.DenyCacheOff {
		if a, ok := d.Refusals.Recall(tag, d.limit, o.Cost, !isStrict, now); ok {
			a.Limit = d.limit.From(weir.FromCounts)
			d.AnswerOp(o, a, now, false)
			return lot.Refused, nil
		}
	}
	if isStrict || o.Verb == weir.Peek {
		return lot.Ask, nil
	}
	g := d.Table.ShardOfTag(tag)
	g.Lock()
	defer g.Unlock()
	e := d.entryFor(g, tag, o.Key, now)
	if d.drawByTally(g, e, o, now, h) {
		return lot.Charged, nil
	}
	// It asks where nothing is left to push and to hear: the store says until when.
	t := d.tallyOf(e)
	if t == nil || e.Flight == nil && (t.units() == 0 && e.Known.Received > 0 && len(e.Lots()) > 0 || !d.launchPush(e, t)) {
		return lot.Ask, nil
	}
	return lot.Wait, e.Flight
}

// entryFor returns the entry of a key under this limit, made if need be; nil if it has no
// room. What was admitted under an earlier version of the limit, or by another decider, is
// settled first. Requires: g.
func (d *Decider) entryFor(g *lot.Shard, tag uint64, key string, now clock.Node) *lot.Entry {
	if e := g.GetEntry(tag, key); e != nil && d.tallyOf(e) == nil {
		if e.Pinned || e.Flight != nil {
			return nil
		}
		g.DropEntry(e)
	}
	e := g.AddEntry(tag, key, d.limit, int64(unsafe.Sizeof(tally{})), now)
	if e != nil && e.State == nil {
		e.State = &tally{terms: d.Terms}
		g.KeepEntry(e, d.idle, now)
	}
	return e
}

// answerByTally fills in what remains, as far as the node knows, but for that of a window that is
// over.
func (d *Decider) answerByTally(o *weir.Op, e *lot.Entry, t *tally, now clock.Node, charged bool) {
	a := weir.Decision{Limit: e.Known.LabelLimit(d.limit, weir.FromCounts), ResetAfter: micros.Duration(int64(max(e.Known.Reset-now, 0)))}
	if now < e.Known.Reset || e.Known.Reset == e.Known.Sent || d.refiller != nil {
		a.Remaining = max(e.Known.Remaining-t.open-t.push.units, 0)
	}
	d.AnswerOp(o, a, now, charged)
}

// Undo implements lot.Decider. What the tally no longer takes back the store gets.
func (d *Decider) Undo(now clock.Node, h *lot.Hold) {
	for i := range h.Parts {
		p := &h.Parts[i]
		o := weir.Op{Key: h.Key(), Limit: d.limit, Cost: p.Free, ID: p.ID, FlowsFrom: int64(p.Charged), Verb: weir.Refund}
		if !d.Refund(now, &o) {
			d.Returns.Surrender(o.Key, p)
		}
	}
	h.Parts = h.Parts[:0]
}

// Holds implements lot.Decider.
func (d *Decider) Holds(now clock.Node, o *weir.Op) bool {
	_, g, e := d.Table.LockEntry(o.Key, d.limit)
	defer g.Unlock()
	t, wall := d.tallyOf(e), int64(d.Clock.Latest(now))
	if t == nil || wall >= o.ID {
		return false
	}
	t.expireSlack(e, now, wall)
	return t.canRefund(e, o)
}

// Refund implements lot.Decider. What no longer counts is not of the tally.
func (d *Decider) Refund(now clock.Node, o *weir.Op) bool {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	t, wall := d.tallyOf(e), int64(d.Clock.Latest(now))
	if t != nil {
		t.expireSlack(e, now, wall)
	}
	if t == nil || wall >= o.ID || !t.refundUnits(e, o) {
		g.Unlock()
		return false
	}
	d.enqueue(e, t, now)
	d.answerByTally(o, e, t, now, true)
	g.Unlock()
	d.Refusals.ForgetRefunded(tag, d.limit, now, o.Decision)
	return true
}

// Learn implements lot.Decider. A refusal where units trickle in stands for an interval:
// what has come in by then is admitted together.
func (d *Decider) Learn(o *weir.Op, sent clock.Node) {
	tag, g, e := d.Table.LockEntry(o.Key, d.limit)
	if d.tallyOf(e) != nil {
		e.Known.Update(o.Decision, sent, d.Clock.Now())
	}
	g.Unlock()
	a := o.Decision
	if d.trickles && !a.Allowed() && o.Cost <= d.slackShare() { // else it is decided strictly
		a.RetryAfter = max(a.RetryAfter, micros.Duration(d.interval))
	}
	d.Refusals.LearnAnswer(tag, d.limit, o.Cost, sent, a, d.idle)
}
