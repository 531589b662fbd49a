package tier

import (
	"math"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// A lot is units that were fetched together: the shared store counts them as
// spent, and the node may spend them until they expire.
type lot struct {
	units   int64 // not spent yet
	fetched int64
	expiry  int64 // the node's time, microseconds
	receipt int64 // names the fetch to the shared store
	charged int64 // when, by the store's clock
}

// A lease is what the node knows of a key and holds of its limit. Times are the
// node's, in microseconds.
//
// Invariant: the units of its lots were fetched at the price that they have under its
// plan. A bucket charges time, and more of it for each unit where the rate is lower.
//
// Invariant: a lot is spent from only before its expiry, by the monotonic clock
// at the instant of the spend: a node that was paused spends nothing that others
// may have by then.
type lease struct {
	prev, next *lease // in the order of use, among those of a like life
	tag        uint64
	key        string
	plan       *plan
	// lots[0] is spent first.
	lots [2]lot
	// pace is how much is fetched at a time, within the node's share: more after a lot
	// that lasted less than half of its time, since so much more would be used up as
	// well. It falls to what was used when a lot expires.
	pace int64
	// remaining is what the shared store had left when it was last asked; it
	// answered at heard.
	remaining, asked, heard int64
	reset                   int64
	used                    int64 // last, to the nearest few milliseconds
	life                    int64 // how long it may lie idle
	fetch                   *fetch
	// A cost of refused or more is refused until the store is asked again, at
	// ask. It could pass at retry; math.MaxInt64: never.
	refused, ask, retry int64
	// scarce: units are used up as fast as they flow back. A lot is then fetched
	// whole or not at all, so that one call brings many units.
	scarce bool
	number number
	// tally is what an eventual limit adds; nil for others.
	tally *tally
}

// largest returns how many units the larger of the lots was fetched with, of those
// that have some left.
func (e *lease) largest() (n int64) {
	for i := range e.lots {
		if e.lots[i].units > 0 {
			n = max(n, e.lots[i].fetched)
		}
	}
	return n
}

// balance returns the units that can be spent.
func (e *lease) balance() int64 { return e.lots[0].units + e.lots[1].units }

// expire takes out the lots that have expired by now and gives them to back.
func (e *lease) expire(now int64, back *[]giveBack) {
	for i := len(e.lots) - 1; i >= 0; i-- {
		if t := &e.lots[i]; t.units > 0 && now >= t.expiry {
			e.pace = max(t.fetched-t.units, 1)
			e.giveUp(t, back)
		}
	}
	if e.lots[0].units == 0 && e.lots[1].units > 0 {
		e.lots[0], e.lots[1] = e.lots[1], e.lots[0]
	}
}

// giveUp moves what is left of a lot to back. Units of a bucket are bound to an
// instant too: at their receipt at the latest as many have flowed in, and a bucket
// that has been full since would have them twice. The store takes them back less
// those that have flowed in since they were charged.
//
// Of a sliding window a few units are let go: their return opens a batch of the
// store's, a 64th of the limit, and puts off what is left of it by about as long as
// the lot has lived, a fifteenth of the period at most. From a tenth of a batch on it
// gives more than that.
func (e *lease) giveUp(t *lot, back *[]giveBack) {
	if e.plan.grained != nil && t.units < e.plan.limit.Count/640 {
		t.units = 0
		return
	}
	*back = append(*back, giveBack{key: e.key, limit: e.plan.by(t.units), units: t.units, receipt: t.receipt, charged: t.charged, bound: true})
	t.units = 0
}

// spend takes cost units if the node holds them.
func (e *lease) spend(cost int64) bool {
	a, b := &e.lots[0], &e.lots[1]
	switch {
	case a.units >= cost:
		a.units -= cost
	case a.units+b.units >= cost:
		b.units -= cost - a.units
		a.units = 0
	default:
		return false
	}
	if a.units == 0 && b.units > 0 {
		*a, *b = *b, *a
	}
	return true
}

// lotOf returns the lot that cost units may have been spent from, if the node still
// holds it; nil if not.
func (e *lease) lotOf(cost, receipt, now int64) *lot {
	for i := range e.lots {
		t := &e.lots[i]
		if now >= t.expiry || cost > t.fetched-t.units {
			continue
		}
		// The receipts of a bucket's lots grow: those that are no later were there when
		// the units were spent.
		if t.receipt == receipt || e.plan.bucket && (receipt == 0 || t.receipt < receipt) {
			return t
		}
	}
	return nil
}

// low reports whether it is time to fetch more, before the last unit is spent.
func (e *lease) low(now int64) bool {
	return e.lots[1].units == 0 && e.lots[0].units < e.lots[0].fetched/4 && e.fetch == nil && now >= e.ask
}

// refuses reports whether cost is refused without asking.
func (e *lease) refuses(cost, now int64) bool { return now < e.ask && cost >= e.refused }

// refusal is the answer to a cost that is refused.
func (e *lease) refusal(now int64) weir.Decision {
	d := e.describe(now)
	d.RetryAfter = weir.Never
	if e.retry != math.MaxInt64 {
		d.RetryAfter = micros.Duration(max(e.retry-now, 1))
	}
	return d
}

// describe tells what remains: what the node holds, and what the shared store had
// left when it was asked.
func (e *lease) describe(now int64) weir.Decision {
	left := e.remaining
	if t := e.tally; t != nil {
		left = max(left-t.untold-t.telling, 0)
	}
	if now >= e.reset && !e.plan.bucket {
		left = 0 // that window is over, and nobody was asked about this one
	}
	return weir.Decision{
		Limit:      e.plan.limit.From(e.plan.source),
		Remaining:  e.balance() + left,
		ResetAfter: micros.Duration(max(e.reset-now, 0)),
	}
}

// heardOf notes what the shared store had left, as it has said at now to a call
// that was sent at sent. Of answers that may have crossed the lower holds.
func (e *lease) heardOf(d weir.Decision, sent, now int64) {
	left := d.Remaining
	if sent <= e.heard {
		left = min(left, e.remaining)
	}
	e.remaining, e.asked, e.heard = left, sent, now
	e.reset = later(sent, micros.Of(d.ResetAfter))
	if e.tally != nil {
		e.tally.known, e.tally.remaining = true, left
	}
}

// take adds a lot.
func (e *lease) take(t lot) {
	b := &e.lots[1]
	switch {
	case e.lots[0].units == 0:
		e.lots[0] = t
	case b.units == 0:
		*b = t
	default:
		// Neither may outlive the other's units, nor seem to have been charged later.
		b.units += t.units
		b.fetched += t.fetched
		b.expiry = min(b.expiry, t.expiry)
		b.receipt = min(b.receipt, t.receipt)
		b.charged = min(b.charged, t.charged)
	}
}

// change puts a lease under another plan of the same counters. What was fetched at
// another price is given to back, at the price that was paid for it.
func (e *lease) change(p *plan, now int64, back *[]giveBack) {
	for i := range e.lots {
		t := &e.lots[i]
		if t.units > 0 && !e.plan.costsAs(p) {
			e.giveUp(t, back)
		}
		// Soon the new limit holds for all that is spent.
		t.expiry = min(t.expiry, now+p.brief)
	}
	e.plan, e.refused, e.ask, e.scarce = p, 0, 0, false
}

// later returns t and us microseconds, below what stands for never.
func later(t, us int64) int64 {
	if us > math.MaxInt64-1-t {
		return math.MaxInt64 - 1
	}
	return t + us
}
