package algorithm

import (
	_ "embed"
	"fmt"
	"math/bits"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// SlidingCounter counts in windows of one Period, aligned to the epoch, and
// weighs the window before the current one by the share of it that the last
// Period still covers. It spreads requests far better than [FixedWindow] at
// the price of one word.
//
// Guarantee: any interval of length d admits at most Count*(1 + d/Period)
// units, the envelope of a token bucket: never more than Count at once, and
// less than 2*Count in any period. Proof: let an interval reach s into a
// window, and let the window before have admitted p. The last unit admitted in
// the s left cur <= Count - p*(Period-s)/Period, so both together hold at most
// Count + p*s/Period; every full window more adds at most Count. It may refuse
// what a log would let pass, as units count on for up to two periods.
//
// The test is exact in integers, prev*(Period-e) + (cur+cost)*Period <=
// Count*Period; nothing is floored. Where Count*Period exceeds 2^53, weights
// are whole ticks of a power of two microseconds, rounded up: never more is
// admitted.
//
// State: 8 bytes while Count is below 2^b, b being half the bits of Period in
// 2048ths of a microsecond (32,767 a second, 262,143 a minute, 2 million an
// hour), else 24 bytes. In 8 bytes forced costs above 2^b-1 units in a window
// are not told apart.
//
// Clock steps: a clock that goes back stays in the window it was in. Rule
// changes: a new count holds at once; of a new period a window counts as spent
// at its end.
//
// Choose it where memory is dear and about so many in a period are enough;
// [SlidingWindow] holds the number.
//
// Source: Cloudflare, "How we built rate limiting capable of scaling to
// millions of domains", 2017.
var SlidingCounter weir.Algorithm = slidingCounter{}

type slidingCounter struct{}

// What Prepare leaves in Limit.Const, after windowPeriod.
const (
	slidingTick  = iota + windowPeriod + 1 // weights are in ticks of 2^slidingTick microseconds
	slidingTicks                           // the weight of a whole window
	slidingBits                            // width of a count in the single word; 0: three words
	slidingMost                            // the largest count that can be kept
)

// Name implements weir.Algorithm.
func (slidingCounter) Name() string { return "sliding_counter" }

// Traits implements weir.Algorithm.
func (slidingCounter) Traits() weir.Traits { return weir.Lends }

// Prepare implements weir.Algorithm.
func (slidingCounter) Prepare(l *weir.Limit) error {
	period := micros.Of(l.Period)
	c := &l.Const
	c[windowPeriod] = period
	c[slidingTick], c[slidingTicks] = finestTicks(l.Count, period)
	// The two counts share what a stamp leaves below a period: the width must
	// depend on the period alone, or a changed count would misread them.
	width := int64(bits.Len64(uint64(period)<<weir.FractionBits)-1) / 2
	if most := int64(1)<<width - 1; l.Count <= most {
		c[slidingBits], c[slidingMost], l.Cells = width, most, 1
	} else {
		c[slidingBits], c[slidingMost], l.Cells = 0, weir.MaxCost, 3
	}
	// The layout is named as that of most in the stores of Weir 0.1.
	l.Layout, l.Price = fmt.Sprintf("window %d, %d bits", period, width), fmt.Sprintf("%d cells", l.Cells)
	l.Envelope = 2 * l.Count
	return nil
}

// finestTicks returns the finest unit in which count windows of the given length are
// at most 2^53: its shift, and how many of it make a window, rounded down.
func finestTicks(count, period int64) (shift, whole int64) {
	for period>>shift > 1 {
		if hi, lo := bits.Mul64(uint64(count), uint64(period>>shift)); hi == 0 && lo <= weir.MaxCost {
			break
		}
		shift++
	}
	return shift, period >> shift
}

// weightInTicks returns the weight, in ticks, of a window of which left microseconds
// are still covered. Rounded up against a whole that is rounded down, it never
// weighs less than the exact share; and never more than the whole, though more
// than the window may be left once the clock has gone back.
func weightInTicks(left, shift, whole int64) int64 {
	return min((left+1<<shift-1)>>shift, whole)
}

// fitsWeighted reports whether n units of the given weight are at most room units of
// the whole weight. room*whole must be below 2^53: a script's doubles then decide
// alike, as a product that they round is above that in any case.
func fitsWeighted(n, weight, room, whole int64) bool {
	hi, lo := bits.Mul64(uint64(n), uint64(weight))
	return hi == 0 && lo <= uint64(room*whole)
}

// weighted returns n*weight/whole, rounded up, for a weight of at most whole.
func weighted(n, weight, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(weight))
	lo, carry := bits.Add64(lo, uint64(whole)-1, 0)
	if hi += carry; hi == 0 {
		return int64(lo / uint64(whole))
	}
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// windows is the state of one key: the current window and the one before.
type windows struct{ start, cur, prev int64 }

// Step implements weir.Algorithm.
func (slidingCounter) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	w, allowed := admitSliding(cells, l, a)
	return w.describe(l, a, allowed)
}

// admitSliding decides and charges, and returns the state afterwards.
func admitSliding(cells []int64, l *weir.Limit, a weir.Ask) (w windows, allowed bool) {
	c := &l.Const
	w = loadWindows(cells, l, a.Now)
	room := l.Count - w.cur - a.Cost
	allowed = a.Cost == 0 || a.Verb == weir.Refund ||
		room >= 0 && fitsWeighted(w.prev, w.previousWeight(l, a.Now), room, c[slidingTicks])
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		w.refund(l, a)
		w.saveRow(cells, l)
	case allowed && a.Verb == weir.Spend, a.Verb == weir.Force:
		w.cur = addUnits(w.cur, a.Cost, c[slidingMost])
		w.saveRow(cells, l)
	}
	return w, allowed
}

// loadWindows reads a row as of now.
//
// In the single word, cur and prev lie below the expiry stamp of their window
// and are together less than one period, so that the word also tells the
// window: word = (start+2*period)<<FractionBits + cur<<width + prev.
func loadWindows(cells []int64, l *weir.Limit, now int64) windows {
	period, width := l.Const[windowPeriod], l.Const[slidingBits]
	span := period << weir.FractionBits
	w := windows{start: windowStart(now, period)}
	// How far the row's stamp lies after the current window's start.
	ahead := cells[0] - w.start<<weir.FractionBits
	if ahead < span {
		return w // never seen, or two windows ago
	}
	if ahead >= 3*span {
		// The clock went back: stay in the window it was in.
		n := ahead/span - 2
		w.start += n * period
		ahead -= n * span
	}
	ahead -= span
	last := ahead < span // written in the window before
	if !last {
		ahead -= span
	}
	if width == 0 {
		w.cur, w.prev = cells[1], cells[2]
	} else {
		w.cur, w.prev = ahead>>width, ahead&(1<<width-1)
	}
	if last {
		w.cur, w.prev = 0, w.cur
	}
	return w
}

// saveRow writes w to a row: one that holds nothing as never seen, one whose units
// are all of the window before as it was then.
func (w windows) saveRow(cells []int64, l *weir.Limit) {
	if w.cur == 0 {
		w = windows{start: w.start - l.Const[windowPeriod], cur: w.prev}
	}
	stamp := (w.start + 2*l.Const[windowPeriod]) << weir.FractionBits
	if w.cur == 0 {
		stamp = 0
	}
	if width := l.Const[slidingBits]; width != 0 {
		cells[0] = stamp + w.cur<<width + w.prev
		return
	}
	cells[0], cells[1], cells[2] = stamp, w.cur, w.prev
}

// Carry implements weir.Carrier. The word has no room for counts above its own.
func (slidingCounter) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	if !sameForm(l, was) {
		return carryByForce(cells, l, old, was, now)
	}
	w, most := loadWindows(old, was, now), l.Const[slidingMost]
	whole := max(w.cur, w.prev) <= most
	w.cur, w.prev = min(w.cur, most), min(w.prev, most)
	w.saveRow(cells, l)
	return whole
}

// Spent implements weir.Carrier.
func (slidingCounter) Spent(cells []int64, l *weir.Limit, now int64, f func(at, units int64)) bool {
	w := loadWindows(cells, l, now)
	if w.prev > 0 {
		f(w.start-1, w.prev)
	}
	if w.cur > 0 {
		f(max(now, w.start), w.cur)
	}
	return max(w.cur, w.prev) < l.Const[slidingMost]
}

// refund gives units back to the window that they were spent in, if it still
// counts; without a receipt to the current one first.
func (w *windows) refund(l *weir.Limit, a weir.Ask) {
	period := l.Const[windowPeriod]
	left := a.Cost
	if a.ID == 0 || a.ID == w.start+2*period {
		taken := min(left, w.cur)
		w.cur -= taken
		left -= taken
	}
	if a.ID == 0 || a.ID == w.start+period {
		w.prev -= min(left, w.prev)
	}
}

// previousWeight returns the weight of the window before at now, in ticks.
func (w windows) previousWeight(l *weir.Limit, now int64) int64 {
	return weightInTicks(w.start+l.Const[windowPeriod]-now, l.Const[slidingTick], l.Const[slidingTicks])
}

func (w windows) describe(l *weir.Limit, a weir.Ask, allowed bool) weir.Decision {
	period := l.Const[windowPeriod]
	d := weir.Decision{Limit: l, Remaining: l.Count - w.cur}
	if w.prev > 0 && d.Remaining > 0 {
		d.Remaining -= weighted(w.prev, w.previousWeight(l, a.Now), l.Const[slidingTicks])
	}
	d.Remaining = max(d.Remaining, 0)
	switch {
	case w.cur > 0:
		d.ResetAfter = micros.Duration(w.start + 2*period - a.Now)
	case w.prev > 0:
		d.ResetAfter = micros.Duration(w.start + period - a.Now)
	}
	if !allowed {
		d.RetryAfter = w.retryAfter(l, a)
	}
	return d
}

// retryAfter returns when a refused cost can pass.
func (w windows) retryAfter(l *weir.Limit, a weir.Ask) time.Duration {
	if a.Cost > l.Count {
		return weir.Never
	}
	// Either the window before must come to weigh less, or, where the current
	// one alone is too full, that one must, in the window after.
	edge, blocker, room := w.start, w.prev, l.Count-a.Cost-w.cur
	if room < 0 {
		edge, blocker, room = edge+l.Const[windowPeriod], w.cur, l.Count-a.Cost
	}
	most := room * l.Const[slidingTicks] / blocker
	return micros.Duration(edge + l.Const[windowPeriod] - most<<l.Const[slidingTick] - a.Now)
}

//go:embed sliding_counter.lua
var slidingCounterLua string

// Script implements Scripted.
func (slidingCounter) Script() Script {
	return Script{Name: "sliding_counter", Text: slidingCounterLua, Spans: 1, States: 3}
}

// Consts implements Scripted.
func (slidingCounter) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	c := &l.Const
	return append(dst, l.Count, c[windowPeriod], 1<<c[slidingTick], c[slidingTicks], c[slidingMost]), forever
}

// Span implements Scripted.
func (slidingCounter) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (slidingCounter) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	w := windows{start: state[0], cur: state[1], prev: state[2]}
	return w.describe(l, a, allowed)
}
