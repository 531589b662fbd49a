package leased

import (
	"cmp"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

const (
	// leastLife is the shortest life of a lot in microseconds: a fetch should be well over
	// when it ends.
	leastLife = 10_000
	// smallBurst is of how many units a bucket is small.
	smallBurst = 64
	// slowLife is how long lots of a slow bucket live at least, if they may.
	slowLife = 100_000
	// small is how many units live as long as a lease does, so that a key that is used
	// seldom does not ask the store each time; more live for as long as it takes to use
	// up more of them.
	small = 16
)

// Terms are the numbers by which one limit is leased. They are immutable.
type Terms struct {
	limit *weir.Limit
	// by is the limit that lots are fetched by, on the counters of limit: of a sliding
	// window one whose units count from when the last of them may be drawn.
	by *weir.Limit
	// held is limit as decisions by what is held name it.
	held  *weir.Limit
	flows bool // units are bound to no window
	// parts is into how many fetches a node divides its share.
	parts int64
	// ends: lots of a bucket end before it would be whole without them. So nothing flows into
	// a full bucket while they are held, and all of its burst can be fetched.
	ends bool
	// busyFor is for how long a fast bucket is busy, in microseconds, before more is charged
	// with a lot than is drawn: as much as flows in while it lives, as it would not live
	// while the bucket is whole. Zero: never.
	busyFor int64
	// life is how long small lots live and keys may lie idle, brief is the same of larger
	// ones, in microseconds.
	life, brief int64
	// trickle is how many units flow back at a time where they do so all the time; zero
	// where they come back together.
	trickle int64
	// most is how many units the nodes may fetch together before other regions must know. One
	// fetches at most half its share, so that the others are not refused until they do.
	most int64
	// numbered: a fetch that has no answer can be repeated.
	numbered bool
}

// NewTerms returns the terms of a limit whose algorithm is a weir.Lender, or nil if its
// leases would be too short to be worth a fetch. Numbered: fetches can be repeated, which
// a store takes that knows more than counts. The error is one of weir.Limit.Compile.
func NewTerms(l *weir.Limit, numbered bool) (*Terms, error) {
	d := &Terms{limit: l, by: l, most: weir.MaxCost, held: l.From(weir.FromLease), parts: cmp.Or(l.Consistency.Share, 4), life: micros.Of(l.LeaseTTL())}
	d.flows = l.Traits()&weir.Refills != 0
	var err error
	switch {
	case d.flows && l.Consistency.Loose:
		d.held, d.trickle = l.From(weir.FromLooseLease), l.Burst
	case d.flows && (micros.Of(l.Period)/l.Count >= leastLife || l.Burst <= smallBurst):
		d.ends, d.trickle = true, 1
		d.life = min(d.life, max(micros.Of(l.Period)/l.Count, slowLife), 1_000_000)
	case d.flows:
		d.ends, d.busyFor, d.trickle = true, min(d.life, 1_000_000), l.Inflow()
	case l.Algorithm == algorithm.SlidingWindow:
		// For about a life, and at most the largest grain: each sub-window but the first has
		// units count a sub-window longer.
		for grain, length := 1, int64(0); err == nil && grain <= 4 && length < d.life; grain++ {
			if d.by, err = lot.Variant(l, func(v *weir.Limit) { v.Grain = grain }); err == nil {
				length = lot.DrawableUntil(l, lot.ReceiptAt(d.by, 0))
				length += length / int64(2*grain)
			}
		}
	case l.Algorithm == algorithm.SlidingCounter:
		d.trickle = l.Inflow()
	}
	if err != nil {
		return nil, err
	}
	if !d.flows {
		d.life = min(d.life, lot.DrawableUntil(l, lot.ReceiptAt(d.by, 0)))
	}
	d.brief = min(d.life, micros.Of(cmp.Or(l.Consistency.LeaseTTL, time.Second)))
	if d.life < leastLife {
		return nil, nil
	}
	// When a window began that begins with the first request cannot be told of a fetch
	// whose answer was lost.
	d.numbered = numbered && (l.Anchor != params.AnchorFirst || l.Algorithm != algorithm.FixedWindow)
	return d, nil
}

// CountForRegions has decisions say that several regions count the limit together, of which
// one may admit so many units that the others do not know of: more are refused for good. What
// is charged and not drawn would be of them.
func (d *Terms) CountForRegions(most int64) {
	d.held, d.most, d.busyFor = d.limit.From(weir.FromCounts), most, 0
}

// makeLot returns the lot of units that the store counted at charged, at the earliest, for a
// call that was first sent at began. An answer to a call of sent reported its time. All that
// is owed with them has flowed in after so many microseconds.
func (d *Terms) makeLot(units, receipt int64, charged clock.Store, began, sent clock.Node, reported clock.Store, owed int64) lot.Lot {
	life := d.lifeOf(units)
	if d.ends {
		life = min(life, owed-d.inflowTime(units))
		charged -= clock.Store(d.earlyMargin())
	}
	t := lot.Lot{ID: receipt, Limit: d.by, Fetched: units, Free: units, Charged: charged, Expiry: began.Expiry(life)}
	if end := lot.DrawableUntil(d.limit, receipt); !d.flows {
		t.Expiry = sent.ExpiryAt(reported, clock.Store(end))
	}
	return t
}

// earlyMargin is by how much sooner lots are given back as charged than they were: they do not make
// the bucket whole while others draw from lots that they fetched after them.
func (d *Terms) earlyMargin() int64 {
	if d.ends {
		return d.life
	}
	return 0
}

// isWhole reports whether the bucket is about to be whole, as far as the node knows: a lot
// would not live.
func (d *Terms) isWhole(e *lot.Entry, now clock.Node) bool {
	return d.ends && int64(e.Known.Reset-now) < leastLife
}

// inflowTime is in how many microseconds so many units of a bucket flow in, rounded up.
func (d *Terms) inflowTime(units int64) int64 {
	return d.limit.Algorithm.(weir.Refiller).FlowsFrom(d.limit, 0, 0, units) + 1
}

// remainder is for how long lots are drawn when the limit has been changed, from the other
// version or to it: not at all of a bucket where a unit is worth more or less time.
func (d *Terms) remainder(other *weir.Limit) int64 {
	if l := d.limit; d.flows && (l.Count != other.Count || l.Period != other.Period) {
		return 0
	}
	return d.brief
}

func (d *Terms) lifeOf(units int64) int64 {
	if units > small {
		return d.brief
	}
	return d.life
}
