package algorithm

import (
	_ "embed"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// SlidingSubwindows cuts the period into Precision sub-windows and keeps the
// units of each, so that they leave one sub-window at a time. Params.Form says
// how the oldest, which the last period covers only in part, is counted.
//
// Guarantee: with params.Strict at most Count units in any interval of one
// Period, in fixed memory; for such an interval lies within Precision+1
// sub-windows, and their sum never exceeds Count. The price is that units
// count on for up to one sub-window more: a saturating client gets
// Precision/(Precision+1) of the limit, 98.4 % for the default of 60. With
// params.Weighted and params.Lenient any Precision sub-windows hold at most Count,
// any period at most 2*Count (a client that aims at it reaches that), and
// about Count is sustained.
//
// State: 8 bytes and a counter for each sub-window, of 2 bytes for a Count up
// to 65,535, 4 up to 2^32-1, else 8: 136, 256 or 496 bytes for a Precision of
// 60. Forced costs beyond what a counter can hold are not told apart. A period
// shorter than Precision microseconds has sub-windows of one microsecond.
//
// Clock steps: a clock that goes back stays in the sub-window it was in. Rule
// changes: a new count or form holds at once; of a new period or precision, or of
// wider counters, each sub-window counts as spent at its end.
//
// Choose it where Count is a promise to somebody: "never more than N a minute".
// Refund gives back only to the sub-window of the spend, without a receipt to
// the newest first.
//
// Source: Figma, "An alternative approach to rate limiting", 2017, whose form
// is the lenient one.
var SlidingSubwindows weir.Algorithm = slidingSubwindows{}

type slidingSubwindows struct{}

// What Prepare leaves in Limit.Const for sliding_subwindows.
const (
	subLength = iota // of a sub-window, microseconds
	subKept          // sub-windows that count; the size of the ring
	subPacked        // log2 of how many counters share a cell
	subMost          // the largest count of a sub-window
	subTick          // weighted: the oldest is weighed in ticks of 2^subTick microseconds
	subTicks         // weighted: its whole weight
)

// Bounds of Params.Precision.
const (
	minPrecision     = 2
	maxPrecision     = 240 // the slot of the newest fits below the stamp
	defaultPrecision = 60
)

// Name implements weir.Algorithm.
func (slidingSubwindows) Name() string { return "sliding_subwindows" }

// Traits implements weir.Algorithm.
func (slidingSubwindows) Traits() weir.Traits { return weir.Lends }

// Prepare implements weir.Algorithm.
func (slidingSubwindows) Prepare(l *weir.Limit) error {
	m := int64(l.Precision)
	if m == 0 {
		m = defaultPrecision
	}
	if m < minPrecision || m > maxPrecision {
		return fmt.Errorf("precision %d must be between %d and %d sub-windows", m, minPrecision, maxPrecision)
	}
	period := micros.Of(l.Period)
	length := (period + m - 1) / m
	kept := (period+length-1)/length + 1
	l.Envelope = 2 * l.Count
	switch l.Form {
	case params.Strict:
		l.Envelope = l.Count
	case params.Weighted:
	case params.Lenient:
		kept--
	default:
		return fmt.Errorf("form %d is not known: use strict, weighted or lenient", l.Form)
	}
	c := &l.Const
	c[subLength], c[subKept] = length, kept
	c[subTick], c[subTicks] = finestTicks(l.Count, length)
	switch {
	case l.Count < 1<<16:
		c[subPacked], c[subMost] = 2, 1<<16-1
	case l.Count < 1<<32:
		c[subPacked], c[subMost] = 1, 1<<32-1
	default:
		c[subPacked], c[subMost] = 0, weir.MaxCost
	}
	l.Cells = 1 + int((kept+1<<c[subPacked]-1)>>c[subPacked])
	l.Layout = fmt.Sprintf("%d of %d, %d to a cell", kept, length, 1<<c[subPacked])
	l.Price = "counters" // of one layout all are read alike
	return nil
}

// ring is the state of one key as of some instant. cells[0] is the expiry stamp
// of the newest sub-window that holds units, and below it that sub-window's
// slot; the counters follow.
//
// Invariant: the newest sub-window holds units, or all cells are zero; every
// slot holds one of the subKept sub-windows up to the newest.
type ring struct {
	cells  []int64
	l      *weir.Limit
	newest int64 // start of the newest sub-window with units
	slot   int64 // its slot
	age    int64 // how many sub-windows it is behind the current one
	oldest int64 // units in the oldest that counts
	rest   int64 // units in the others
}

// loadRing reads a row as of now.
func loadRing(cells []int64, l *weir.Limit, now int64) ring {
	c := &l.Const
	stamp := cells[0] >> weir.FractionBits
	r := ring{cells: cells, l: l}
	if now >= stamp {
		r.newest, r.age = windowStart(now, c[subLength]), c[subKept]
		return r
	}
	r.slot = cells[0] & (1<<weir.FractionBits - 1)
	r.newest = stamp - c[subKept]*c[subLength]
	// A clock that went back stays in the newest.
	if behind := now - r.newest; behind >= c[subLength] {
		r.age = behind / c[subLength]
	}
	last := c[subKept] - 1 - r.age // how far behind the newest the oldest is
	r.oldest = r.unitsAt(last)
	if r.age < c[subKept]/2 {
		r.rest = r.sumSlots() - r.oldest
		for i := c[subKept] - 1; i > last; i-- {
			r.rest -= r.unitsAt(i)
		}
	} else {
		for i := range last {
			r.rest += r.unitsAt(i)
		}
	}
	return r
}

// packedAt returns the cell and the bits of the sub-window that is i behind the
// newest.
func (r *ring) packedAt(i int64) (cell *int64, shift int64, mask uint64) {
	c := &r.l.Const
	slot := r.slot - i
	if slot < 0 {
		slot += c[subKept]
	}
	width := int64(64) >> c[subPacked]
	return &r.cells[1+slot>>c[subPacked]], slot & (1<<c[subPacked] - 1) * width, 1<<(width-1)<<1 - 1
}

func (r *ring) unitsAt(i int64) int64 {
	cell, shift, mask := r.packedAt(i)
	return int64(uint64(*cell) >> shift & mask)
}

func (r *ring) setUnits(i, units int64) {
	cell, shift, mask := r.packedAt(i)
	*cell = int64(uint64(*cell)&^(mask<<shift) | uint64(units)<<shift)
}

// sumSlots returns the units in all slots, several at a time: their sums cannot
// carry into each other, as at most 241 are added.
func (r *ring) sumSlots() int64 {
	var a, b uint64
	switch r.l.Const[subPacked] {
	case 2:
		const even = 0x0000ffff0000ffff
		for _, x := range r.cells[1:r.l.Cells] {
			a += uint64(x)&even + uint64(x)>>16&even
		}
		return int64(a&(1<<32-1) + a>>32)
	case 1:
		for _, x := range r.cells[1:r.l.Cells] {
			a += uint64(x) & (1<<32 - 1)
			b += uint64(x) >> 32
		}
	default:
		for _, x := range r.cells[1:r.l.Cells] {
			a += uint64(x)
		}
	}
	return int64(a + b)
}

// Step implements weir.Algorithm.
func (slidingSubwindows) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	r := loadRing(cells, l, a.Now)
	allowed := r.decideAndCharge(a)
	d := r.describe(a.Now)
	if !allowed {
		d.RetryAfter = weir.Never
		if a.Cost <= l.Count {
			d.RetryAfter = micros.Duration(r.opensAt(a.Cost) - a.Now)
		}
	}
	return d
}

// describe tells what is left. It looks at no counter.
func (r *ring) describe(now int64) weir.Decision {
	l := r.l
	d := weir.Decision{Limit: l, Remaining: l.Count - r.rest}
	if l.Form == params.Weighted && r.oldest > 0 && d.Remaining > 0 {
		d.Remaining -= weighted(r.oldest, r.oldestWeight(now), l.Const[subTicks])
	} else {
		d.Remaining -= r.oldest
	}
	d.Remaining = max(d.Remaining, 0)
	if r.age < l.Const[subKept] {
		d.ResetAfter = micros.Duration(r.expiryOf(0) - now)
	}
	return d
}

// decideAndCharge decides and charges; r is the state afterwards.
func (r *ring) decideAndCharge(a weir.Ask) bool {
	l := r.l
	allowed := a.Cost == 0 || a.Verb == weir.Refund
	switch {
	case allowed:
	case l.Form == params.Weighted:
		room := l.Count - r.rest - a.Cost
		allowed = room >= 0 && fitsWeighted(r.oldest, r.oldestWeight(a.Now), room, l.Const[subTicks])
	default:
		allowed = a.Cost <= l.Count-r.rest-r.oldest
	}
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		r.refund(a)
		*r = loadRing(r.cells, l, a.Now)
	case allowed && a.Verb == weir.Spend, a.Verb == weir.Force:
		r.advance()
		r.chargeNewest(a.Cost)
	}
	return allowed
}

// Carry implements weir.Carrier.
func (slidingSubwindows) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	return carryByForce(cells, l, old, was, now)
}

// Spent implements weir.Carrier.
func (slidingSubwindows) Spent(cells []int64, l *weir.Limit, now int64, f func(at, units int64)) bool {
	r, length := loadRing(cells, l, now), l.Const[subLength]
	for i := l.Const[subKept] - 1 - r.age; i >= 0; i-- {
		if units := r.unitsAt(i); units > 0 {
			f(min(r.newest+(1-i)*length-1, max(now, r.newest)), units)
		}
	}
	return r.rest+r.oldest < l.Const[subMost]
}

// advance makes the current sub-window the newest.
func (r *ring) advance() {
	c := &r.l.Const
	if r.age >= c[subKept] {
		clear(r.cells[:r.l.Cells])
		r.slot, r.age = 0, 0
		return
	}
	for ; r.age > 0; r.age-- {
		r.newest += c[subLength]
		if r.slot++; r.slot == c[subKept] {
			r.slot = 0
		}
		r.setUnits(0, 0)
	}
}

// chargeNewest adds cost to the newest sub-window, which is the current one.
func (r *ring) chargeNewest(cost int64) {
	c := &r.l.Const
	had := r.unitsAt(0)
	has := addUnits(had, cost, c[subMost])
	r.setUnits(0, has)
	if c[subKept] == 1 {
		r.oldest = has
	} else {
		r.rest += has - had
	}
	r.writeStamp()
}

func (r *ring) writeStamp() { r.cells[0] = r.expiryOf(0)<<weir.FractionBits | r.slot }

// expiryOf returns when the sub-window that is i behind the newest stops to
// count.
func (r *ring) expiryOf(i int64) int64 {
	c := &r.l.Const
	return r.newest + (c[subKept]-i)*c[subLength]
}

// refund gives units back to the sub-window that they were spent in, if it
// still counts; without a receipt to the newest first.
func (r *ring) refund(a weir.Ask) {
	c := &r.l.Const
	if r.age >= c[subKept] {
		return
	}
	left := a.Cost
	for i := range c[subKept] - r.age {
		if a.ID == 0 || a.ID == r.expiryOf(i) {
			has := r.unitsAt(i)
			r.setUnits(i, has-min(left, has))
			left -= min(left, has)
		}
	}
	// Restore the invariant: the newest holds units.
	for i := range c[subKept] - r.age {
		if r.unitsAt(i) > 0 {
			r.newest -= i * c[subLength]
			if r.slot -= i; r.slot < 0 {
				r.slot += c[subKept]
			}
			r.writeStamp()
			return
		}
	}
	clear(r.cells[:r.l.Cells])
}

// oldestWeight returns the weight of the oldest sub-window at now, in ticks.
func (r *ring) oldestWeight(now int64) int64 {
	c := &r.l.Const
	return weightInTicks(r.newest+(r.age+1)*c[subLength]-now, c[subTick], c[subTicks])
}

// opensAt returns when a refused cost can pass: when enough sub-windows have
// left, oldest first, or, weighted, the last of them has faded enough.
func (r *ring) opensAt(cost int64) int64 {
	c := &r.l.Const
	over := r.rest + r.oldest + cost - r.l.Count
	for i := c[subKept] - 1 - r.age; ; i-- {
		units := r.unitsAt(i)
		if over -= units; over > 0 {
			continue
		}
		return r.opensAfter(r.expiryOf(i), -over, units)
	}
}

// opensAfter returns when a cost can pass that the sub-window up to expiry is in the
// way of: spare of its units may stay.
func (r *ring) opensAfter(expiry, spare, units int64) int64 {
	if r.l.Form != params.Weighted {
		return expiry
	}
	// What may be left of this sub-window when it is the oldest; not all of it,
	// or it would have been enough that the one before it left.
	left := spare * r.l.Const[subTicks] / units
	return expiry - left<<r.l.Const[subTick]
}

//go:embed sliding_subwindows.lua
var slidingSubwindowsLua string

// Script implements Scripted.
func (slidingSubwindows) Script() Script {
	return Script{Name: "sliding_subwindows", Text: slidingSubwindowsLua, Spans: 1, States: 7}
}

// Consts implements Scripted. The script keeps a counter in as many bytes as its
// lane has.
func (slidingSubwindows) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	c := &l.Const
	return append(dst, l.Count, c[subLength], c[subKept], c[subMost], 8>>c[subPacked], int64(l.Form),
		1<<c[subTick], c[subTicks]), forever
}

// Span implements Scripted.
func (slidingSubwindows) Span(dst []int64, _ *weir.Limit, cost int64) []int64 {
	return oneCost(dst, cost)
}

// Describe implements Scripted.
func (slidingSubwindows) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	r := ring{l: l, rest: state[0], oldest: state[1], newest: state[2], age: state[3]}
	d := r.describe(a.Now)
	if !allowed {
		d.RetryAfter = weir.Never
		if a.Cost <= l.Count {
			d.RetryAfter = micros.Duration(r.opensAfter(state[4], state[5], state[6]) - a.Now)
		}
	}
	return d
}
