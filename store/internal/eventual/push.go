package eventual

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

// leastSlack is the shortest life of slack, in microseconds. Shorter is none: a draw that
// asks again and again must find that time passes.
const leastSlack = 1000

// A push is the report under way, or the next one.
type push struct {
	units int64 // that it tells of, 0: none is to be repeated
	transport.Series
}

// A dueItem is an entry that has something to be pushed, at an instant.
type dueItem struct {
	e  *lot.Entry
	at clock.Node
}

// enqueue has a tally pushed in its interval. Requires: the shard of e.
func (v *Env) enqueue(e *lot.Entry, t *tally, now clock.Node) {
	if e.Pinned {
		return
	}
	e.Pinned = true
	v.mu.Lock()
	v.due = append(v.due, dueItem{e, now.Add(t.terms.interval)})
	v.mu.Unlock()
}

// PushDue begins to push what is due by an instant, and gives back what credits are left.
func (v *Env) PushDue(by clock.Node) {
	v.mu.Lock()
	due := v.due
	v.due = nil
	v.mu.Unlock()
	later := due[:0]
	for _, x := range due {
		if x.at > by {
			later = append(later, x)
			continue
		}
		t := x.e.State.(*tally)
		d := &Decider{v, t.terms}
		_, g, e := v.Table.LockEntry(x.e.Key(), d.limit)
		if x.e.Pinned = false; e == x.e { // else it was dropped
			d.pushOne(e, t, v.Clock.Now())
		}
		g.Unlock()
	}
	v.mu.Lock()
	v.due = append(v.due, later...)
	v.mu.Unlock()
}

// pushOne requires the shard of e.
func (d *Decider) pushOne(e *lot.Entry, t *tally, now clock.Node) {
	t.expireSlack(e, now, int64(d.Clock.Latest(now)))
	if t.open < 0 && t.push.units == 0 { // else the store may get back what it has not counted yet
		d.Returns.Surrender(e.Key(), &lot.Lot{ID: t.receipt - d.batch, Limit: d.limit, Free: -t.open, Charged: clock.Store(t.charged)})
		t.open = 0
	}
	if t.isOpen() && (e.Flight != nil || !d.launchPush(e, t)) {
		d.enqueue(e, t, now)
	}
}

// launchPush begins a push, of nothing if nothing is open: it asks for slack and hears what
// remains. It reports false if the node is closing. Requires: the shard of e.
func (d *Decider) launchPush(e *lot.Entry, t *tally) bool {
	return e.LaunchFlight(context.Background(), d.Go, func(f *lot.Flight) { (&Decider{d.Env, t.terms}).sendPush(e, t, f) })
}

// PushOpen has the store told what the tally of a key holds, and returns the flight that tells
// it, nil if there is nothing to tell. One that is under way may have left without what was
// admitted last: when it has landed, the next one has it.
func (d *Decider) PushOpen(key string) *lot.Flight {
	_, g, e := d.Table.LockEntry(key, d.limit)
	defer g.Unlock()
	t := d.tallyOf(e)
	if t == nil || t.units() == 0 || e.Flight == nil && !d.launchPush(e, t) {
		return nil
	}
	return e.Flight
}

// sendPush makes the call of a push.
func (d *Decider) sendPush(e *lot.Entry, t *tally, f *lot.Flight) {
	tag, g, _ := d.Table.LockEntry(e.Key(), d.limit)
	ops := d.pushOps(e, t)
	g.Unlock()
	sent, err := d.Fetch(f, ops)
	if err == nil {
		d.Refusals.LearnAnswer(tag, d.limit, 0, sent, ops[len(ops)-1].Decision, 0)
	}
	g.Lock()
	defer g.Unlock()
	now := d.Clock.Now()
	if e.Flight = nil; err == nil {
		d.adoptAnswer(e, t, ops, sent, now)
	}
	if t.addUnits(e, 0); t.isOpen() {
		d.enqueue(e, t, now)
	}
	f.Land(err)
}

// pushOps returns what the store is told and asked: to count a push, if it was not counted
// yet, for slack if there is none, and what remains; the last op is of the limit itself.
// What is open is moved into the push, unless one is to be repeated, which it is not when it
// has waited for longer than the store is sure to remember it. Requires: the shard of e.
func (d *Decider) pushOps(e *lot.Entry, t *tally) (ops []weir.Op) {
	p, now := &t.push, d.Clock.Now()
	if p.units > 0 && p.IsOver(now) {
		// Nobody will know whether it was counted: the units stay taken from the slack.
		s := slackOf(e)
		s.Fetched = max(s.Fetched-p.units, 0)
		*p = push{}
	}
	last, again := weir.Op{Limit: d.limit, Role: weir.Always, Verb: weir.Peek}, p.units > 0
	if !again && t.open > 0 {
		p.units, t.open = t.open, 0
	}
	if p.units > 0 {
		last.Cost, last.Verb = p.units, weir.Force
		ops = append(ops, d.MarkOp(&p.Series, e.Key(), again))
	}
	if e.ExpireLots(now); len(e.Lots()) == 0 && d.slackShare() > 0 {
		ops = append(ops, weir.Op{Limit: d.slack, Cost: d.slackShare(), Role: weir.Always})
	}
	if d.most != nil && e.Known.Received > 0 && p.units > 0 && (e.Known.Remaining-p.units)*5 < d.limit.Burst {
		ops = append(ops, weir.Op{Limit: d.most, Cost: 1, Role: weir.Always, Verb: weir.Peek}) // sees what was there before
	}
	ops = append(ops, last)
	for i := range ops {
		if ops[i].Limit != d.Mark {
			ops[i].Key = e.Key()
		}
	}
	return ops
}

// adoptAnswer takes over what the store answered to a push, which is counted now or was before.
// Requires: the shard of e.
func (d *Decider) adoptAnswer(e *lot.Entry, t *tally, ops []weir.Op, sent, now clock.Node) {
	last := &ops[len(ops)-1]
	isCounted := t.push.units == 0 || last.Charged // in this call, and so is what else was asked
	for i := range ops {
		switch o := &ops[i]; {
		case o.Limit == d.most && isCounted:
			over := d.limit.Overshoot() - (o.Decision.Remaining - t.push.units)
			d.Overshot.Store(max(d.Overshot.Load(), over)) // under a lock of many: at worst a smaller one is kept
		case o.Limit == d.slack && isCounted:
			// Slack ends with its window. Where there is none it is asked for again when
			// others may have given some back.
			s := lot.Lot{ID: o.Receipt(), Limit: d.slack, Charged: clock.Store(o.Now), Expiry: sent.Add(d.idle)}
			if end := sent.ExpiryAt(s.Charged, clock.Store(s.ID)); o.Decision.Allowed() && end >= sent.Add(leastSlack) {
				s.Fetched, s.Expiry = o.Cost, end
			} else {
				s.Expiry = max(min(s.Expiry, end), sent.Add(leastSlack))
			}
			e.AdoptLot(s, 1)
		}
	}
	if t.push.units > 0 { // it is counted, now or before
		t.push.units = 0
		t.push.EndCall()
	}
	e.Known.Update(last.Decision, sent, now)
}
