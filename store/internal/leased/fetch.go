package leased

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

const (
	// mostLots is how many lots of units an entry has at most.
	mostLots = 2
	// atRisk is how much of its use a node holds at most, in microseconds, beside a small
	// lot: so much is lost when it is killed. A lot is asked for when three quarters of the
	// one before are used, so that it lasts for a third to two thirds of that time.
	atRisk = 250_000
)

// A number names the next fetch of an entry to the store, so that a fetch whose answer
// was lost can be repeated. The store counts fetches by a mark, in the same call: fetch n
// brings units only while fewer than n were counted. Where n were, the one without an
// answer had been carried out, and what it brought is adopted.
//
// A mark has a random name and is used by one entry for a while: nothing else was ever
// counted by it. Where that is no longer known, the next fetch gets another mark, and
// what the old one may still bring stays counted and is never drawn.
//
// Invariant: of all fetches of one number at most one is ever carried out, also of those
// that arrive late.
//
// It belongs to the flight under way.
type number struct {
	mark  *weir.Limit // nil: the next fetch gets one
	since int64       // when it got it, by the monotonic clock
	// counted is how many fetches the mark has counted.
	counted int64
	// lost is how many units the fetches of the next number asked for that have no answer,
	// the least of them; 0: there is none. The first was sent at sent, at from by the
	// store's clock or later, by the terms of one limit.
	lost  int64
	sent  clock.Node
	from  clock.Store
	terms *Terms
}

// renew gets a mark for fetches by the terms d, where the present one is of no use.
func (n *number) renew(d *Terms, ticks int64) (err error) {
	age := ticks - n.since
	if n.mark != nil && n.terms == d && (age < lot.NumberFor || n.lost > 0 && age < lot.NumberFor+lot.RepeatFor) {
		return nil
	}
	*n = number{since: ticks, terms: d}
	n.mark, err = lot.NewMark(d.limit, "fetches")
	return err
}

// asked is what became of a fetch: if it was Charged, the lot.
type asked struct {
	weir.Op
	lot  lot.Lot
	sent clock.Node
	err  error
}

// ask spends units on the store for a flight. What brings no more than a decision needs
// has no number, unless one has no answer yet.
func (d Decider) ask(e *lot.Entry, f *lot.Flight, units, need int64) (a asked) {
	n := &e.State.(*state).number
	ops := []weir.Op{{Key: e.Key(), Limit: d.by, Cost: units}, {Key: e.Key(), Cost: 1}}
	if !d.numbered || units <= need && n.lost == 0 {
		ops = ops[:1]
	} else if a.err = n.renew(d.Terms, int64(d.Clock.Now())-d.Clock.Lost()); a.err != nil {
		return a
	} else {
		ops[1].Limit, ops[1].Headroom = n.mark, lot.MarkCount-n.counted-1
	}
	ahead, known := d.Clock.Earliest(0)
	if a.sent, a.err = d.Fetch(f, ops); a.err != nil {
		switch {
		case len(ops) == 1:
		case !known:
			n.mark = nil
		case n.lost == 0:
			n.lost, n.sent, n.from = units, a.sent, ahead+clock.Store(a.sent)
		default:
			n.lost = min(n.lost, units)
		}
		return a
	}
	a.Op = ops[0]
	reported := clock.Store(a.Now)
	switch {
	case a.Charged:
		n.counted, n.lost = n.counted+int64(len(ops)-1), 0
		a.lot = d.lot(units, a.Receipt(), reported, a.sent, a.sent, reported)
	case n.lost == 0 || lot.MarkCount-ops[1].Decision.Remaining != n.counted+1: // the limit has too little
	case reported-n.from < clock.Store(a.sent-n.sent):
		n.mark, n.lost = nil, 0 // the store's clock was set, so when it was counted is not known
		return d.ask(e, f, units, need)
	default: // it was carried out: as what it was at the earliest
		receipt := lot.ReceiptAt(d.by, int64(n.from))
		if r, ok := d.limit.Algorithm.(weir.Refiller); ok {
			receipt = r.FlowsFrom(d.limit, int64(n.from), int64(n.from), n.lost)
		}
		a.lot, a.Charged = d.lot(n.lost, receipt, n.from, n.sent, a.sent, reported), true
		n.counted, n.lost = n.counted+1, 0
	}
	return a
}

// launch begins a fetch of at least need units, if the node is not closing. Requires: the
// shard of e.
func (d Decider) launch(ctx context.Context, e *lot.Entry, need int64) bool {
	f := lot.NewFlight(ctx)
	if !d.Go(func() { d.fetch(e, f, need) }) {
		return false
	}
	e.Flight = f
	return true
}

// fetch asks the store for units; where it has fewer than were asked for, once more, but
// for those that trickle in, which are not fetched one by one.
func (d Decider) fetch(e *lot.Entry, f *lot.Flight, need int64) {
	tag, g, _ := d.Table.Find(e.Key(), d.limit)
	s := *e.State.(*state)
	want := max(d.want(e, d.Clock.Now()), need, s.number.lost)
	g.Unlock()
	a := d.ask(e, f, want, need)
	if left := a.Decision.Remaining; a.err == nil && !a.Charged && want > need && (d.trickle == 0 || !s.scarce && left >= need) {
		want = max(min(left/(d.parts*d.Nodes()), want), need)
		a = d.ask(e, f, want, need)
	}
	if f.Decision = a.Decision; a.err == nil {
		if f.Refused = need; a.Charged {
			f.Refused = 0
		} else if d.trickle > 0 && want > need {
			f.Refused = 1 // until a lot is there nothing is fetched
		}
		d.Refusals.Learn(tag, d.limit, f.Refused, a.sent, a.Decision, d.brief)
	}
	g.Lock()
	defer g.Unlock()
	if e.Flight = nil; a.err == nil {
		d.adopt(g, e, a)
	}
	f.Land(a.err)
}

// adopt takes over what the store answered to a fetch. Requires: g.
func (d Decider) adopt(g *lot.Shard, e *lot.Entry, a asked) {
	now, s := d.Clock.Now(), e.State.(*state)
	e.Known.Update(a.Decision, a.sent, now)
	s.scarce = d.trickle > 0 && (!a.Charged || s.scarce && a.Decision.Remaining < a.lot.Fetched)
	if !a.Charged {
		s.rest = a.sent.Add(min(d.brief, micros.Of(a.Decision.RetryAfter)))
		return
	}
	d.Fetched.Add(1)
	if s.rest = 0; e.Limit != d.limit {
		a.lot.Expiry = min(a.lot.Expiry, now.Add(d.remainder(e.Limit))) // it was changed meanwhile
	}
	e.Add(a.lot, mostLots)
	e.Expire(now)
	e.Pace = min(max(a.lot.Fetched, e.Pace), weir.MaxCost/4)
	g.Keep(e, d.lifeOf(a.lot.Fetched), now)
}

// want is how many units to fetch: within the node's share of what remains, as many as it
// uses. Requires: the shard of e.
func (d Decider) want(e *lot.Entry, now clock.Node) int64 {
	parts := d.parts * d.Nodes()
	if e.State.(*state).scarce {
		return max(min(d.trickle/parts, d.most), 1)
	}
	pace, quick := e.Pace, min(d.brief, atRisk)
	switch lasted := int64(now - e.Known.Sent); {
	case lasted < quick/16:
		pace *= 4
	case lasted < quick/4:
		pace *= 2
	case pace > small && lasted > quick/2:
		// It is used more slowly than it was.
		pace = max(int64(float64(pace)*float64(quick/2)/float64(lasted)), small)
		e.Pace = pace
	case lasted < d.life/8:
		pace = max(pace, min(4*pace, small))
	case lasted < d.life/2:
		pace = max(pace, min(2*pace, small))
	}
	left := d.by.Burst
	if k := &e.Known; k.Received > 0 && now < k.Reset && (!d.flows || int64(now-k.Sent) < d.life) {
		left = min(k.Remaining, left)
	}
	return max(min(left/parts, pace, d.most), 1)
}
