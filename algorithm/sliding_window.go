package algorithm

import (
	_ "embed"
	"fmt"
	"math/bits"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// SlidingWindow admits never more than Count units in any interval of one
// Period, in one to four words for a key.
//
// It cuts the period into sub-windows, 60 of them (40 for a Count up to 20), and
// the units into batches, so that at most 64 batches make Count. Whole batches
// are placed in the sub-window that they were spent in and leave together with
// it; the units of an open batch, fewer than a batch has, leave one period after
// the last spend. A batch has one unit for a Count up to 64, then the next of
// 2..8, 10, 12, 14, 16, 20, 24, 28, 32, 40 and so on that makes at most 64
// batches of Count.
//
// Guarantee: at most Count units in any half-open interval (t-Period, t]. Proof:
// a unit counts as one of a batch in its own sub-window or a later one, or of
// the open batch, as if spent with the last unit. A sub-window leaves when a
// whole period has passed since its end. So every unit of the last period counts
// when a spend is decided, and the last spend of an interval saw all others of it.
//
// Nor is it late: what is refused would also be refused by a log of Count units,
// less one batch and plus one, over 61/60 of the period (41/40 for a Count up to
// 20; both up to 60 microseconds more, as sub-windows are whole ones). A saturating client gets 97 to 98.4 % of Count, one that spends all of it
// at once gets all of it back after exactly one period.
//
// State: 8 bytes for a Count of 1, 16 up to 20, 24 up to 16,384, else 32. Of
// forced costs the newest Count units are remembered, above a Count of 20 the newest
// 16,384 and above one of 16,384 the newest 2^53, in larger batches; a refund of more gives
// back less.
//
// Clock steps: after the clock went back, units are spent with the last unit.
// Rule changes: a new count holds at once and keeps what was spent, also above it, for
// when it is raised again; of a new period each sub-window counts as spent at its end.
//
// A refund takes the oldest units off that count as spent with the receipt's or
// later. What is left of a batch that is opened for it counts as spent with the
// last unit: later, never earlier. Without a receipt the newest units are taken
// off first. Many refunds of less than a batch keep units counting for longer than
// a period: [SlidingSubwindows] takes them back to the unit.
//
// With Params.Grain a spend counts from the end of a later sub-window, so that
// units can be fetched ahead and used until then: see [weir.Lender].
//
// Choose it when in doubt.
//
// Source: the sub-windows of Figma's "An alternative approach to rate limiting",
// 2017, counted strictly; a bit for each batch instead of a number for each
// sub-window, after the unary codes of Elias and Fano, 1974.
var SlidingWindow weir.Algorithm = slidingWindow{}

type slidingWindow struct{}

// What Prepare leaves in Limit.Const for sliding_window, after windowPeriod.
const (
	batchLength  = iota + windowPeriod + 1 // of a sub-window, microseconds
	batchKept                              // sub-windows that count
	batchInverse                           // and batchShift: see inverseOf
	batchShift
	batchSize  // units of a batch
	batchCode  // 3 cells: of an open batch without units; 4 cells: the number of the size
	batchMost  // batches that are remembered
	batchGrain // Params.Grain
)

// Bounds of the layouts.
const (
	smallCount = 20     // the largest count of 2 cells
	mostUnits  = 16_384 // the largest count of 3 cells
	mapBits    = 64     // of each of the two maps
	maxGrain   = 4
	openBits   = 8   // 4 cells: bits of the number of the size, below the open units
	batchSizes = 28  // of 3 cells: 64 batches of the last are mostUnits
	largeSizes = 184 // of 4 cells: weir.MaxCost
)

// Name implements weir.Algorithm.
func (slidingWindow) Name() string { return "sliding_window" }

// Traits implements weir.Algorithm.
func (slidingWindow) Traits() weir.Traits { return weir.Lends }

// Prepare implements weir.Algorithm.
func (slidingWindow) Prepare(l *weir.Limit) error {
	if l.Grain < 0 || l.Grain > maxGrain {
		return fmt.Errorf("grain %d must be between 0 and %d sub-windows", l.Grain, maxGrain)
	}
	period := micros.Of(l.Period)
	c := &l.Const
	parts := int64(fineParts)
	number := int64(0)
	for mapBits*nthBatchSize(number) < l.Count {
		number++
	}
	c[batchSize], c[batchCode], c[batchMost] = nthBatchSize(number), 0, mapBits
	switch {
	case l.Count == 1:
		parts, l.Cells, c[batchMost] = coarseParts, 1, 1
	case l.Count <= smallCount:
		parts, l.Cells, c[batchMost] = coarseParts, 2, smallCount
	case l.Count <= mostUnits:
		l.Cells = 3
		for n := range number {
			c[batchCode] += nthBatchSize(n)
		}
	default:
		l.Cells, c[batchCode] = 4, number
	}
	length := subWindow(period, parts)
	c[windowPeriod], c[batchLength], c[batchKept] = period, length, (period+length-1)/length+1
	c[batchInverse], c[batchShift] = inverseOf(length)
	c[batchGrain] = int64(l.Grain)
	// The layout says 3 cells of all, as that of most has it in the stores of Weir 0.1.
	l.Layout, l.Price = fmt.Sprintf("batches %d, 3 cells", period), fmt.Sprintf("%d cells", l.Cells)
	l.Envelope = l.Count
	return nil
}

// Into so many sub-windows a period is cut for a count up to smallCount, and for others.
const coarseParts, fineParts = 40, 60

// subWindow returns the length of one of so many sub-windows.
func subWindow(period, parts int64) int64 { return (period + parts - 1) / parts }

// inverseOf returns 2^(63+shift) / length, rounded up, for the shift that makes it
// use all 64 bits. The product with twice a time below 2^62, shifted right by 64
// and shift, is then the time divided by length exactly.
func inverseOf(length int64) (inverse, shift int64) {
	if length == 1 {
		return -1 << 63, 0 // 2^63
	}
	shift = int64(bits.Len64(uint64(length - 1)))
	q, rest := bits.Div64(1<<(shift-1), 0, uint64(length))
	if rest > 0 {
		q++
	}
	return int64(q), shift
}

// nthBatchSize returns the n-th size of a batch: 1 to 8, then four to an octave.
func nthBatchSize(n int64) int64 {
	if n < 8 {
		return n + 1
	}
	return (5 + n&3) << (n>>2 - 1)
}

// batches is the state of one key as of some instant.
//
// Invariant: runs has a bit for each batch, newest lowest, set where the batch is
// the oldest of its sub-window; ages has bit a-1 set where the sub-window that is
// a before the newest holds batches. So runs has as many bits set as ages, or one
// more if the newest sub-window holds batches too. Unless it does, open is above
// 0, or there is nothing.
type batches struct {
	last       int64 // when the last unit counts as spent
	newest     int64 // the number of its sub-window
	ages, runs uint64
	open       int64 // units of the open batch
	size       int64 // of a batch
}

// indexOf returns the number of the sub-window that holds an instant.
func indexOf(c *[10]int64, at int64) int64 {
	hi, _ := bits.Mul64(uint64(at)<<1, uint64(c[batchInverse]))
	return int64(hi >> uint64(c[batchShift]))
}

// Step implements weir.Algorithm.
func (slidingWindow) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	w := loadBatches(cells, l, a.Now)
	c := &l.Const
	used := w.units()
	allowed := a.Cost <= l.Count-used || a.Cost == 0 || a.Verb == weir.Refund
	switch {
	case a.Cost == 0 || a.Verb == weir.Peek:
	case a.Verb == weir.Refund:
		if used > 0 {
			w.refund(c, a)
			w.saveRow(cells, l)
			used = w.units()
		}
	case allowed || a.Verb == weir.Force:
		if !allowed {
			w.widenBatches(l, a.Cost)
		}
		w.spend(c, a)
		w.saveRow(cells, l)
		used = w.units()
	}
	var opens int64
	if !allowed && a.Cost <= l.Count {
		opens = w.opensAt(c, l.Count-a.Cost)
	}
	return describeBatches(l, a, allowed, used, w.last, opens)
}

// describeBatches tells what is left where used units count, the last of them
// spent at last, and a refused cost must wait until opens.
func describeBatches(l *weir.Limit, a weir.Ask, allowed bool, used, last, opens int64) weir.Decision {
	d := weir.Decision{Limit: l, Remaining: max(l.Count-used, 0)}
	if used > 0 {
		d.ResetAfter = micros.Duration(last + l.Const[windowPeriod] - a.Now)
	}
	switch {
	case allowed:
	case a.Cost > l.Count:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = micros.Duration(opens - a.Now)
	}
	return d
}

// loadBatches reads a row as of now.
func loadBatches(cells []int64, l *weir.Limit, now int64) (w batches) {
	c := &l.Const
	size := c[batchSize]
	w.size = size
	stamp := cells[0] >> weir.FractionBits
	if now >= stamp {
		return w
	}
	w.last = stamp - c[windowPeriod]
	w.newest = indexOf(c, w.last)
	switch l.Cells {
	case 1:
		w.runs = 1
		return w
	case 2:
		w.ages, w.runs = uint64(cells[1])>>smallCount, uint64(cells[1])&(1<<smallCount-1)
	case 3:
		w.ages, w.runs = uint64(cells[1]), uint64(cells[2])
		code := cells[0] & (1<<weir.FractionBits - 1)
		if w.open = code - c[batchCode]; uint64(w.open) >= uint64(size) {
			size, w.open = 1, code
			for n := int64(0); w.open >= size && n < batchSizes; {
				w.open -= size
				n++
				size = nthBatchSize(n)
			}
		}
	default:
		w.ages, w.runs = uint64(cells[1]), uint64(cells[2])
		w.open = cells[3] >> openBits
		if n := cells[3] & (1<<openBits - 1); n != c[batchCode] {
			size = nthBatchSize(n)
		}
	}
	// Where a lowered count has no room for larger batches they stay as they are: it may be
	// raised again.
	if w.size = size; size < c[batchSize] || size > c[batchSize] && w.units() <= c[batchMost]*c[batchSize] {
		w.regroup(c, c[batchSize])
	}
	// Should the clock have gone back, nothing leaves.
	if kept := uint64(c[batchKept] - 1 - (indexOf(c, now) - w.newest)); w.ages>>kept != 0 {
		for range bits.OnesCount64(w.ages >> kept) {
			w.runs &^= 1 << (bits.Len64(w.runs) - 1)
		}
		w.ages &= 1<<kept - 1
	}
	return w
}

// saveRow writes w to a row: one that holds nothing as never seen.
func (w *batches) saveRow(cells []int64, l *weir.Limit) {
	c := &l.Const
	if w.runs == 0 && w.open == 0 {
		clear(cells[:l.Cells])
		return
	}
	cells[0] = (w.last + c[windowPeriod]) << weir.FractionBits
	switch l.Cells {
	case 1:
	case 2:
		cells[1] = int64(w.ages<<smallCount | w.runs)
	case 3:
		cells[0] |= w.sizeCode(l) + w.open
		cells[1], cells[2] = int64(w.ages), int64(w.runs)
	default:
		cells[1], cells[2], cells[3] = int64(w.ages), int64(w.runs), w.open<<openBits|w.sizeCode(l)
	}
}

// sizeCode returns what a row says of the size of its batches.
func (w *batches) sizeCode(l *weir.Limit) (code int64) {
	if w.size == l.Const[batchSize] {
		return l.Const[batchCode]
	}
	for n := int64(0); nthBatchSize(n) != w.size; n++ {
		if code++; l.Cells == 3 {
			code += nthBatchSize(n) - 1
		}
	}
	return code
}

// units returns how many units count.
func (w *batches) units() int64 {
	return int64(bits.Len64(w.runs))*w.size + w.open
}

// own is 1 if the newest sub-window holds batches, else 0.
func (w *batches) own() int { return bits.OnesCount64(w.runs) - bits.OnesCount64(w.ages) }

// advance makes the sub-window that is by after the newest the newest.
func (w *batches) advance(by int64) {
	own := uint64(w.own())
	w.newest += by
	w.ages = w.ages<<uint64(by) | own<<uint64(by-1)
}

// spend counts cost units as spent at now or, in grains, at the end of the last
// sub-window of the grain that begins at now.
func (w *batches) spend(c *[10]int64, a weir.Ask) {
	at := a.Now
	if g := c[batchGrain]; g > 0 {
		at = (indexOf(c, at)+g)*c[batchLength] - 1
	}
	w.spendAt(c, at, a.Cost)
}

// spendAt counts units as spent at an instant, or with the last unit if that is later.
func (w *batches) spendAt(c *[10]int64, at, units int64) {
	if at > w.last {
		w.last = at
		if by := indexOf(c, at) - w.newest; by > 0 {
			w.advance(by)
		}
	}
	w.open += units
	w.closeBatch(c)
}

// Carry implements weir.Carrier. The units of a sub-window count as spent at its end.
func (slidingWindow) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	c, used, isSame := &l.Const, int64(0), sameForm(l, was)
	w := batches{size: c[batchSize]}
	was.Algorithm.(weir.Carrier).Spent(old, was, now, func(at, units int64) {
		used += units
		if w.widenBatches(l, units); isSame {
			w.spendAt(c, at, units)
		} else {
			w.spend(c, weir.Ask{Now: at, Cost: units})
		}
	})
	w.saveRow(cells, l)
	return isSame && w.units() == used
}

// Spent implements weir.Carrier.
func (slidingWindow) Spent(cells []int64, l *weir.Limit, now int64, f func(at, units int64)) bool {
	w := loadBatches(cells, l, now)
	w.eachSubWindow(l.Const[batchLength], f)
	return int64(bits.Len64(w.runs)) < l.Const[batchMost]
}

// eachSubWindow calls f with the end of each sub-window of a length that holds units, the oldest
// first, or with the last unit's time, and how many it holds.
func (w batches) eachSubWindow(length int64, f func(at, units int64)) {
	for w.ages != 0 {
		top, age := bits.Len64(w.runs), bits.Len64(w.ages)
		w.runs &^= 1 << (top - 1)
		w.ages &^= 1 << (age - 1)
		f(min((w.newest-int64(age)+1)*length-1, w.last), int64(top-bits.Len64(w.runs))*w.size)
	}
	if units := int64(bits.Len64(w.runs))*w.size + w.open; units > 0 {
		f(w.last, units)
	}
}

// closeBatch places what is in the open batch above its size.
func (w *batches) closeBatch(c *[10]int64) {
	n := int64(1)
	switch size := w.size; {
	case w.open < size:
		return
	case w.open < 2*size:
		w.open -= size
	default:
		n = w.open / size
		w.open -= n * size
	}
	w.addBatches(min(n, c[batchMost]), c[batchMost])
}

// addBatches places n batches in the newest sub-window. Of more than most the oldest are
// forgotten.
func (w *batches) addBatches(n, most int64) {
	if over := int64(bits.Len64(w.runs)) + n - most; over > 0 {
		w.forgetOldest(int(over))
	}
	own := w.own()
	w.runs <<= uint64(n)
	if own == 0 {
		w.runs |= 1 << uint64(n-1)
	}
}

// forgetOldest drops the n oldest batches.
func (w *batches) forgetOldest(n int) {
	own := w.own()
	left := bits.Len64(w.runs) - n
	w.runs &= 1<<left - 1
	if left > 0 {
		w.runs |= 1 << (left - 1)
	}
	for bits.OnesCount64(w.ages)+own > bits.OnesCount64(w.runs) && w.ages != 0 {
		w.ages &^= 1 << (bits.Len64(w.ages) - 1)
	}
}

// widenBatches makes batches larger where so many units more than the limit lets pass would have
// the oldest be forgotten: a count that is raised, also to another whose rows are read alike,
// finds what was spent.
func (w *batches) widenBatches(l *weir.Limit, units int64) {
	if l.Cells < 3 {
		return
	}
	sizes := int64(batchSizes)
	if l.Cells > 3 {
		sizes = largeSizes
	}
	size, sum := w.size, w.units()+units
	for n := int64(0); sum > mapBits*size && n < sizes; n++ {
		size = max(size, nthBatchSize(n))
	}
	if size > w.size {
		w.regroup(&l.Const, size)
	}
}

// regroup makes batches of another size of w's: what a sub-window has above whole ones goes
// on to the next newer one.
func (w *batches) regroup(c *[10]int64, size int64) {
	old := *w
	*w = batches{last: old.last, size: size}
	for old.ages != 0 {
		top, age := bits.Len64(old.runs), bits.Len64(old.ages)
		old.runs &^= 1 << (top - 1)
		old.ages &^= 1 << (age - 1)
		w.open += int64(top-bits.Len64(old.runs)) * old.size
		w.closeBatch(c)
		w.advance(int64(age - bits.Len64(old.ages)))
	}
	w.newest = old.newest
	w.open += int64(bits.Len64(old.runs))*old.size + old.open
	w.closeBatch(c)
}

// opensAt returns when at most room units count, of more that do now.
func (w *batches) opensAt(c *[10]int64, room int64) int64 {
	stamp := w.last + c[windowPeriod]
	if w.open > room {
		return stamp
	}
	// The batches that may stay; all older ones must leave, and with them the
	// sub-window of the youngest of those.
	stay := (room - w.open) / w.size
	sub := w.newest
	ages := w.ages
	if drop := bits.OnesCount64(w.runs >> uint64(stay)); drop <= bits.OnesCount64(ages) {
		for ; drop > 1; drop-- {
			ages &^= 1 << (bits.Len64(ages) - 1)
		}
		sub -= int64(bits.Len64(ages))
	}
	return min((sub+c[batchKept])*c[batchLength], stamp)
}

// refund takes cost units off.
func (w *batches) refund(c *[10]int64, a weir.Ask) {
	switch {
	case a.ID == 0:
		taken := min(a.Cost, w.open)
		w.open -= taken
		w.takeNewest(a.Cost - taken)
	case a.ID > a.Now && a.ID <= w.last+c[windowPeriod]:
		w.takeOldest(c, a.Cost, indexOf(c, max(a.ID-c[windowPeriod], 0)))
	}
	w.restoreNewest(c, a.Now)
}

// takeOldest takes units off the batches in the sub-windows from first on, oldest
// first, then off the open batch. What is left of a batch goes to the open one.
func (w *batches) takeOldest(c *[10]int64, units, first int64) {
	refundable := w.ages & (1<<uint64(w.newest-first) - 1) // the ages of those sub-windows
	subs := w.own() + bits.OnesCount64(refundable)
	there := 0 // their batches, the lowest bits of runs
	if subs > 0 {
		rest := w.runs
		for range subs - 1 {
			rest &= rest - 1
		}
		there = bits.TrailingZeros64(rest) + 1
	}
	size := w.size
	n := min(int64(there), (units+size-1)/size)
	stay := there - int(n)
	low := w.runs & (1<<stay - 1)
	if stay > 0 {
		low |= 1 << (stay - 1)
	}
	w.ages &^= refundable
	for emptied := subs - bits.OnesCount64(low); emptied > 0 && refundable != 0; emptied-- {
		refundable &^= 1 << (bits.Len64(refundable) - 1)
	}
	w.ages |= refundable
	w.runs = w.runs>>there<<stay | low
	w.open = max(w.open+n*size-units, 0)
	w.closeBatch(c)
}

// takeNewest takes units off the newest batches, while none is open.
func (w *batches) takeNewest(units int64) {
	size := w.size
	units = min(units, int64(bits.Len64(w.runs))*size)
	n := (units + size - 1) / size
	emptied := bits.OnesCount64(w.runs&(1<<n-1)) - w.own()
	w.runs >>= n
	for ; emptied > 0; emptied-- {
		w.ages &= w.ages - 1
	}
	w.open += n*size - units
}

// restoreNewest restores the invariant after a refund: the newest sub-window that holds
// batches is the newest, and the last unit was spent in it.
func (w *batches) restoreNewest(c *[10]int64, now int64) {
	if w.open > 0 || w.runs == 0 || w.own() > 0 {
		return
	}
	by := bits.TrailingZeros64(w.ages) + 1
	w.ages >>= by
	w.newest -= int64(by)
	w.last = min(w.last, (w.newest+1)*c[batchLength]-1)
	if w.last+c[windowPeriod] <= now {
		*w = batches{size: w.size}
	}
}

//go:embed sliding_window.lua
var slidingWindowLua string

// Script implements Scripted.
func (slidingWindow) Script() Script {
	return Script{Name: "sliding_window", Text: slidingWindowLua, Spans: 1, States: 3}
}

// Consts implements Scripted.
func (slidingWindow) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	c := &l.Const
	return append(dst, l.Count, c[windowPeriod], c[batchLength], c[batchKept], c[batchSize], c[batchMost], c[batchGrain],
		subWindow(c[windowPeriod], coarseParts), subWindow(c[windowPeriod], fineParts)), forever
}

// Span implements Scripted.
func (slidingWindow) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (slidingWindow) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	return describeBatches(l, a, allowed, state[0], state[1], state[2])
}
