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
// The store may have counted fetches of an earlier entry of the key, or count one that
// arrives late. So how many is not known at first, and looked at with a fetch that has no
// number; and that a number is the entry's own is sure once a fetch of the one before has
// brought units.
//
// Invariant: of all fetches of one number at most one is ever carried out, also of those
// that arrive late.
//
// It belongs to the flight under way.
type number struct {
	terms   *Terms // whose marks are used
	turn    int64  // of the mark
	counted int64  // by the mark, less than 0: not known
	// sure: no other fetch of the next number can be under way than those in lost.
	sure bool
	// lost is how many units the fetches of the next number asked for that have no answer,
	// the least of them; 0: there is none. The first was sent at sent, at from by the
	// store's clock or later.
	lost int64
	sent clock.Node
	from clock.Store
}

// forget gives up what has no answer: what it brought, if anything, is never drawn.
func (n *number) forget() { n.counted, n.sure, n.lost = -1, false, 0 }

// renew goes over to the marks of the terms d, and to that of the present turn, unless a
// fetch is still to be repeated. Of an entry that was there before, that one has counted
// nothing.
func (n *number) renew(d *Terms, now clock.Node, turn int64) {
	if n.lost > 0 && int64(now-n.sent) > lot.RepeatFor {
		n.forget()
	}
	switch {
	case n.terms != d:
		*n = number{terms: d, turn: turn, counted: -1}
	case n.lost == 0 && turn > n.turn:
		n.turn, n.counted, n.sure = turn, 0, true
	}
}

// miss notes that a fetch of so many units, sent at sent, has no answer. The store's clock
// is ahead of the node's at least, if that is known.
func (n *number) miss(units int64, sent clock.Node, ahead clock.Store, known bool) {
	switch {
	case n.counted < 0:
	case !n.sure || !known:
		n.forget()
	case n.lost == 0:
		n.lost, n.sent, n.from = units, sent, ahead+clock.Store(sent)
	default:
		n.lost = min(n.lost, units)
	}
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
func (d *Decider) ask(e *lot.Entry, f *lot.Flight, units, need int64) (a asked) {
	n, ops := &e.State.(*state).number, make([]weir.Op, 1, 2)
	ops[0] = weir.Op{Key: e.Key(), Limit: d.by, Cost: units}
	if d.marks != nil && (units > need || n.lost > 0) {
		now := d.Clock.Now()
		n.renew(d.Terms, now, lot.TurnAt(int64(now)-d.Clock.Lost()))
		ops = append(ops, d.marks.Op(e.Key(), n.turn, n.counted))
	}
	ahead, known := d.Clock.Earliest(0)
	if a.sent, a.err = d.Fetch(f, ops); a.err != nil {
		if len(ops) > 1 {
			n.miss(units, a.sent, ahead, known)
		}
		return a
	}
	a.Op = ops[0]
	reported := clock.Store(a.Now)
	if a.Charged {
		a.lot = d.lot(units, a.Receipt(), reported, a.sent, a.sent, reported)
	}
	if len(ops) == 1 {
		return a
	}
	switch counted := lot.Counted(&ops[1]); {
	case ops[1].Decision.Guarantee().Source == weir.FromSuccessor:
		n.forget() // another server answers, which has not seen the fetches before
	case n.counted < 0:
		n.counted = counted
	case a.Charged:
		n.counted, n.sure, n.lost = counted, true, 0
	case counted <= n.counted: // the limit has too little
	case n.lost > 0 && counted == n.counted+1 && reported-n.from >= clock.Store(a.sent-n.sent):
		// It was carried out: as what it was at the earliest.
		receipt := lot.ReceiptAt(d.by, int64(n.from))
		if r, ok := d.limit.Algorithm.(weir.Refiller); ok {
			receipt = r.FlowsFrom(d.limit, int64(n.from), int64(n.from), n.lost)
		}
		a.lot, a.Charged = d.lot(n.lost, receipt, n.from, n.sent, a.sent, reported), true
		n.counted, n.lost = counted, 0
	default: // another fetch was, or the store's clock was set, so when is not known
		n.counted, n.sure, n.lost = counted, false, 0
		return d.ask(e, f, units, need)
	}
	return a
}

// launch begins a fetch of at least need units, if the node is not closing. Requires: the
// shard of e.
func (d *Decider) launch(ctx context.Context, e *lot.Entry, need int64) bool {
	return e.Launch(ctx, d.Go, func(f *lot.Flight) { d.fetch(e, f, need) })
}

// fetch asks the store for units; where it has fewer than were asked for, once more, but
// for those that trickle in, which are not fetched one by one.
func (d *Decider) fetch(e *lot.Entry, f *lot.Flight, need int64) {
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
func (d *Decider) adopt(g *lot.Shard, e *lot.Entry, a asked) {
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
	e.Expire(now) // what is fetched must not become one with what has ended
	e.Add(a.lot, mostLots)
	e.Expire(now) // it may have come too late itself
	e.Pace = min(max(a.lot.Fetched, e.Pace), weir.MaxCost/4)
	g.Keep(e, d.lifeOf(a.lot.Fetched), now)
}

// want is how many units to fetch: within the node's share of what remains, as many as it
// uses. Requires: the shard of e.
func (d *Decider) want(e *lot.Entry, now clock.Node) int64 {
	parts, most := d.parts*d.Nodes(), d.most/(2*d.Nodes())
	if e.State.(*state).scarce {
		return max(min(d.trickle/parts, most), 1)
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
	return max(min(left/parts, pace, most), 1)
}
