package algorithm

import (
	_ "embed"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// SlidingLog remembers when each of the last Count units was spent, and lets a
// cost of n pass when the n units that it would push out are a period old.
//
// Guarantee: at most Count units in any half-open interval (t-Period, t], and a
// request is refused only if its cost would exceed that. Nothing is better and
// nothing is dearer.
//
// State: 16 bytes and 8 for each unit spent in the last Period, at most
// 8*Count+16; a row grows as it is used. Every unit has a word of its own,
// rather than a run of equal times a pair: so the decision is one look at the
// Count-n+1-th newest, with no sum over the log. A Count above Params.MaxLog is
// refused when the limit is compiled. Of forced costs the newest Count units
// are remembered.
//
// Clock steps: after the clock went back, units are logged at the newest time
// there is. Rule changes: a new count or period holds at once, for as far back
// as the log reaches.
//
// Choose it for small counts that must be exact: five password resets an hour.
//
// Source: ClassDojo, "Better Rate Limiting With Redis Sorted Sets", 2015, less
// its faults: refused requests are not logged, and two at one instant are two.
var SlidingLog weir.Algorithm = slidingLog{}

type slidingLog struct{}

// Bounds of Params.MaxLog.
const (
	defaultMaxLog = 10_000
	maxMaxLog     = 1<<logBits - 1
)

// A log's header packs three numbers of logBits bits.
const (
	logBits = 20
	logMask = 1<<logBits - 1
	logHead = 2 // cells before the first unit
)

// Name implements weir.Algorithm.
func (slidingLog) Name() string { return "sliding_log" }

// Traits implements weir.Algorithm.
func (slidingLog) Traits() weir.Traits { return weir.Grows }

// Prepare implements weir.Algorithm.
func (slidingLog) Prepare(l *weir.Limit) error {
	most := l.MaxLog
	if most == 0 {
		most = defaultMaxLog
	}
	if most < 1 || most > maxMaxLog {
		return fmt.Errorf("max_log %d must be between 1 and %d", most, maxMaxLog)
	}
	if l.Count > most {
		return fmt.Errorf("a log of %d units a key is above the %d allowed: use sliding_subwindows, which never admits more than the count either, or raise max_log",
			l.Count, most)
	}
	l.Const[windowPeriod] = micros.Of(l.Period)
	// Not by Count: a row must keep its units when the count is lowered.
	l.Cells, l.Full = logHead+int(most), logHead+int(l.Count)
	l.Layout = fmt.Sprintf("log of %d", most)
	l.Envelope = l.Count
	return nil
}

// unitLog is a ring of times, oldest first. cells[0] is the expiry stamp,
// cells[1] packs head, length and capacity.
//
// Invariant: times do not decrease from the oldest to the newest.
type unitLog struct {
	cells  []int64
	head   int // slot of the oldest
	length int
	room   int // slots of the ring
	stamp  int64
	period int64
}

func loadLog(cells []int64, l *weir.Limit) unitLog {
	g := unitLog{cells: cells, period: l.Const[windowPeriod], stamp: cells[0] >> weir.FractionBits}
	if len(cells) >= logHead {
		h := cells[1]
		g.head, g.length, g.room = int(h>>(2*logBits)), int(h>>logBits&logMask), int(h&logMask)
	}
	return g
}

// saveHeader writes header and stamp; a log without units as never seen.
func (g *unitLog) saveHeader() {
	if g.length == 0 {
		g.cells[0], g.cells[1] = 0, 0
		return
	}
	g.cells[0] = g.stamp << weir.FractionBits
	g.cells[1] = int64(g.head)<<(2*logBits) | int64(g.length)<<logBits | int64(g.room)
}

// unitSlot returns where the i-th oldest unit is.
func (g *unitLog) unitSlot(i int) *int64 {
	if i += g.head; i >= g.room {
		i -= g.room
	}
	return &g.cells[logHead+i]
}

// expiryOf returns when the i-th oldest unit stops to count. A stamp set under
// another period may come before its own time.
func (g *unitLog) expiryOf(i int) int64 { return min(*g.unitSlot(i)+g.period, g.stamp) }

// countExpired returns how many units, the oldest, no longer count at now. It takes few
// looks where few have left since the last spend, which is usual.
func (g *unitLog) countExpired(now int64) int {
	from, to := 0, 1
	for to <= g.length && g.expiryOf(to-1) <= now {
		from, to = to, 2*to
	}
	to = min(to, g.length)
	for from < to {
		if mid := (from + to) / 2; g.expiryOf(mid) <= now {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// fitsUnits reports whether n more units may be spent: whether there is no unit, or
// none that counts, in the place of the count-n+1-th newest.
func (g *unitLog) fitsUnits(now, n, count int64) bool {
	if n > count {
		return false
	}
	i := int64(g.length) - 1 - (count - n)
	return i < 0 || g.expiryOf(int(i)) <= now
}

// Room implements weir.Grower.
func (slidingLog) Room(cells []int64, l *weir.Limit, a weir.Ask) int {
	g := loadLog(cells, l)
	need := g.room
	if a.Cost > 0 && (a.Verb == weir.Force || a.Verb == weir.Spend && g.fitsUnits(a.Now, a.Cost, l.Count)) {
		counting := int64(g.length - g.countExpired(a.Now))
		need = max(need, int(min(counting+min(a.Cost, l.Count), l.Count)))
	}
	return min(logHead+need, l.Cells)
}

// Step implements weir.Algorithm.
func (slidingLog) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	g := loadLog(cells, l)
	allowed := g.decideAndCharge(l, a)
	counting := int64(g.length - g.countExpired(a.Now))
	var last, opens int64
	if counting > 0 {
		last = g.expiryOf(g.length - 1)
	}
	if !allowed && a.Cost <= l.Count {
		opens = g.expiryOf(g.length - 1 - int(l.Count-a.Cost))
	}
	return describeLog(l, a, allowed, counting, last, opens)
}

// decideAndCharge decides and charges.
func (g *unitLog) decideAndCharge(l *weir.Limit, a weir.Ask) bool {
	allowed := a.Cost == 0 || a.Verb == weir.Refund || g.fitsUnits(a.Now, a.Cost, l.Count)
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		if g.length > 0 {
			g.refund(a)
			g.saveHeader()
		}
	case allowed && a.Verb == weir.Spend, a.Verb == weir.Force:
		g.dropOldest(g.countExpired(a.Now))
		g.growRing()
		g.logUnits(a.Now, int(min(a.Cost, l.Count)), int(l.Count))
		g.saveHeader()
	}
	return allowed
}

// dropOldest forgets the n oldest.
func (g *unitLog) dropOldest(n int) {
	g.length -= n
	if g.head += n; g.head >= g.room {
		g.head -= g.room
	}
}

// growRing makes the ring as large as the row has become.
func (g *unitLog) growRing() {
	room := min(len(g.cells)-logHead, maxMaxLog)
	if more := room - g.room; more > 0 && g.head+g.length > g.room {
		// The part before the seam moves to the new end.
		times := g.cells[logHead:]
		copy(times[g.head+more:room], times[g.head:g.room])
		g.head += more
	}
	g.room = room
}

// logUnits logs n units at now, or at the newest time if that is later. Of more than
// count the oldest make way.
func (g *unitLog) logUnits(now int64, n, count int) {
	if g.length > 0 {
		now = max(now, *g.unitSlot(g.length - 1))
	}
	g.dropOldest(max(g.length+n-count, 0))
	for range n {
		*g.unitSlot(g.length) = now
		g.length++
	}
	g.stamp = now + g.period
}

// refund forgets as many of the units of one spend as are given back and still
// count; without a receipt, the newest units.
func (g *unitLog) refund(a weir.Ask) {
	from, to := g.countExpired(a.Now), g.length
	if a.ID != 0 {
		from, to = max(from, g.countExpired(a.ID-1)), g.countExpired(a.ID)
	}
	n := int(min(a.Cost, int64(max(to-from, 0))))
	for i := to; i < g.length; i++ {
		*g.unitSlot(i - n) = *g.unitSlot(i)
	}
	g.length -= n
	if g.length > 0 {
		g.stamp = g.expiryOf(g.length - 1)
	}
}

//go:embed sliding_log.lua
var slidingLogLua string

// Script implements Scripted.
func (slidingLog) Script() Script {
	return Script{Name: "sliding_log", Text: slidingLogLua, Spans: 1, States: 3, Collection: true}
}

// Consts implements Scripted.
func (slidingLog) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	return append(dst, l.Count, l.Const[windowPeriod]), forever
}

// Span implements Scripted.
func (slidingLog) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (slidingLog) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	return describeLog(l, a, allowed, state[0], state[1], state[2])
}

// describeLog tells what is left where counting units count, the newest until
// last, and a refused cost must wait until opens.
func describeLog(l *weir.Limit, a weir.Ask, allowed bool, counting, last, opens int64) weir.Decision {
	d := weir.Decision{Limit: l, Remaining: max(l.Count-counting, 0)}
	if counting > 0 {
		d.ResetAfter = micros.Duration(last - a.Now)
	}
	if !allowed {
		d.RetryAfter = weir.Never
		if a.Cost <= l.Count {
			d.RetryAfter = micros.Duration(opens - a.Now)
		}
	}
	return d
}
