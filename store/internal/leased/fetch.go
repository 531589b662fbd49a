package leased

import (
	"context"
	"math/bits"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

const (
	// mostLots is how many lots of units an entry has at most.
	mostLots = 2
	// atRisk is how much of its use a node holds at most, in microseconds, beside a small
	// lot: so much is lost when it is killed. A lot is asked for when three quarters of the
	// one before are used, so that it lasts for a third to two thirds of that time.
	atRisk = 250_000
)

// A number is that of the next fetch of an entry: one whose answer was lost is repeated under it.
// Where it was carried out, what it brought is adopted. Of all fetches of one number at most
// one is ever carried out, also of those that arrive late.
//
// It belongs to the flight under way.
type number struct {
	terms *Terms // by which it fetches
	transport.Series
	// lost is how many units the fetches of the number asked for that have no answer, the
	// least of them; 0: there is none. The first was sent at sent, at from by the store's
	// clock or later.
	lost int64
	sent clock.Node
	from clock.Store
}

// recordLostFetch notes that a fetch of so many units, sent at sent, has no answer. The store's clock
// is ahead of the node's at least, if that is known: else what it brought is never drawn.
func (n *number) recordLostFetch(units int64, sent clock.Node, ahead clock.Store, known bool) {
	switch {
	case !known:
		*n = number{}
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

// askForUnits spends units on the store for a flight, and spare ones that are not drawn. What brings
// no more than a decision needs has no number, unless one has no answer yet.
func (d *Decider) askForUnits(e *lot.Entry, f *lot.Flight, units, spare, need int64) (a asked) {
	n, ops := &e.State.(*state).number, make([]weir.Op, 1, 2)
	ops[0] = weir.Op{Key: e.Key(), Limit: d.by, Cost: units + spare}
	if d.numbered && (units > need || n.lost > 0) {
		if n.terms != d.Terms || n.lost > 0 && n.IsOver(d.Clock.Now()) {
			*n = number{terms: d.Terms}
		}
		ops = append(ops, d.MarkOp(&n.Series, e.Key(), n.lost > 0))
	}
	ahead, known := d.Clock.Earliest(0)
	if a.sent, a.err = d.Fetch(f, ops); a.err != nil {
		if len(ops) > 1 {
			n.recordLostFetch(units, a.sent, ahead, known)
		}
		return a
	}
	a.Op = ops[0]
	reported := clock.Store(a.Now)
	if a.Charged {
		a.lot = d.makeLot(units, a.Receipt(), reported, a.sent, a.sent, reported, micros.Of(a.Decision.ResetAfter))
	}
	if len(ops) == 1 {
		return a
	}
	switch lost := n.lost; {
	case !a.Charged && !n.HasRun(&ops[1]): // the limit has too little
		return a
	case !a.Charged && lost > 0 && reported-n.from >= clock.Store(a.sent-n.sent):
		// It was carried out: as what it was at the earliest.
		receipt := lot.ReceiptAt(d.by, int64(n.from))
		if r, ok := d.limit.Algorithm.(weir.Refiller); ok {
			receipt = r.FlowsFrom(d.limit, int64(n.from), int64(n.from), lost)
		}
		a.lot, a.Answer = d.makeLot(lost, receipt, n.from, n.sent, a.sent, reported, 0), weir.Answer{Decision: a.Decision, Now: a.Now, Charged: true}
	}
	n.lost = 0
	if n.EndCall(); !a.Charged { // the store's clock was set, so when it was carried out is not known
		return d.askForUnits(e, f, units, spare, need)
	}
	return a
}

// launchFetch begins a fetch of at least need units, if that can bring a lot and the node is not
// closing. Requires: the shard of e.
func (d *Decider) launchFetch(ctx context.Context, e *lot.Entry, need int64, now clock.Node) bool {
	if isBusy := d.busyFor > 0 && d.isBusy(e.State.(*state), now); d.isWhole(e, now) && !isBusy {
		return false
	}
	return e.LaunchFlight(ctx, d.Go, func(f *lot.Flight) { d.fetchUnits(e, f, need) })
}

// isBusy reports whether the store was asked again and again for a while, and notes that it is.
func (d *Terms) isBusy(s *state, now clock.Node) bool {
	if int64(now-s.last) > 2*d.life {
		s.since = now
	}
	s.last = now
	return int64(s.last-s.since) >= d.busyFor
}

// spareUnits is how many units are charged beside a lot, so that the bucket is not whole before it
// ends: none while much is owed, so that a burst has them at its end. Each node charges its
// part, as it does not know what others have charged since.
func (d *Decider) spareUnits(e *lot.Entry, now clock.Node) int64 {
	if s := e.State.(*state); d.busyFor == 0 || int64(s.last-s.since) < d.busyFor {
		return 0
	}
	missing := d.life - max(int64(e.Known.Reset-now), 0)
	if missing <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(d.trickle), uint64(missing))
	units, _ := bits.Div64(hi, lo, uint64(d.life*d.Nodes())) // at most the trickle
	return int64(units) + 1
}

// fetchUnits asks the store for units; where it has fewer than were asked for, once more, but
// for those that trickle in, which are not fetched one by one.
func (d *Decider) fetchUnits(e *lot.Entry, f *lot.Flight, need int64) {
	tag, g, _ := d.Table.LockEntry(e.Key(), d.limit)
	s := *e.State.(*state)
	want, spare := max(d.unitsToFetch(e, d.Clock.Now()), need, s.number.lost), d.spareUnits(e, d.Clock.Now())
	g.Unlock()
	a := d.askForUnits(e, f, want, spare, need)
	inLots := d.trickle > 1 && s.scarce
	if a.err == nil && !a.Charged && want+spare > need && !inLots {
		want, spare = max(min(a.Decision.Remaining/(d.parts*d.Nodes()), want), need), 0
		a = d.askForUnits(e, f, want, 0, need)
	}
	refused := need
	if f.Decision = a.Decision; a.err == nil {
		if a.Charged {
			refused = 0
		} else if inLots && want > need {
			refused = 1 // until a lot is there nothing is fetched
		}
		d.Refusals.LearnAnswer(tag, d.limit, refused, a.sent, a.Decision, d.brief)
	}
	g.Lock()
	defer g.Unlock()
	if e.Flight = nil; a.err == nil {
		if d.adoptAnswer(g, e, a); !a.Charged {
			f.Refused = refused + e.FreeUnits() // what is held counts
		}
	}
	f.Land(a.err)
}

// adoptAnswer takes over what the store answered to a fetch. Requires: g.
func (d *Decider) adoptAnswer(g *lot.Shard, e *lot.Entry, a asked) {
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
	e.ExpireLots(now) // what is fetched must not become one with what has ended
	s.moved = a.Decision.Guarantee().Source == weir.FromSuccessor || s.moved && e.FreeUnits() > 0
	e.AdoptLot(a.lot, mostLots)
	e.ExpireLots(now) // it may have come too late itself
	e.Pace = min(max(a.lot.Fetched, e.Pace), weir.MaxCost/4)
	g.KeepEntry(e, d.lifeOf(a.lot.Fetched), now)
}

// unitsToFetch is how many units to fetch: within the node's share of what remains, as many as it
// uses. Requires: the shard of e.
func (d *Decider) unitsToFetch(e *lot.Entry, now clock.Node) int64 {
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
