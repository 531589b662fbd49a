package algorithm

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// FixedWindow counts the units of each window apart and refuses what would
// bring a window above Count. Windows are aligned to the Unix epoch, begin
// with a key's first request, or are days, weeks, months or years of a time
// zone: see [params.Params].
//
// Guarantee: at most Count units in any window, at most 2*Count in any interval
// no longer than a window, at most (k+1)*Count in k windows' time; an interval
// can see two full windows meet, so the first bound on intervals is tight. Of
// calendar windows the shortest sets the bound: one period of 24 hours can
// touch three days when one of them has 23.
//
// State: 16 bytes, the end of the window and the count.
//
// Clock steps: a clock that goes back stays in the window it was in, so a key
// can be locked out for as much longer as the clock went back. Rule changes: a new
// count holds at once; what an open window counts, counts in that of a new period. In
// Redis, where a row does not say its period, one that ends later keeps its end.
//
// Choose it where the window is a contract ("a thousand a calendar month") or
// where another limiter counts so. Refund gives back only to the window that
// the units were spent in.
//
// Source: the common INCR and EXPIRE recipe, less its faults (refused requests
// are not counted, the window is not prolonged); with params.AnchorFirst it is
// the hash table of start time and count of most system design interviews.
var FixedWindow weir.Algorithm = fixedWindow{}

type fixedWindow struct{}

// What Prepare leaves in Limit.Const for the window algorithms, in
// microseconds.
const (
	windowPeriod = iota
	windowPhase  // fixed_window: of windows aligned to the epoch
)

// Name implements weir.Algorithm.
func (fixedWindow) Name() string { return "fixed_window" }

// Traits implements weir.Algorithm.
func (fixedWindow) Traits() weir.Traits { return weir.Lends }

// Prepare implements weir.Algorithm.
func (fixedWindow) Prepare(l *weir.Limit) error {
	if l.Phase < 0 || l.Phase > l.Period || l.Phase%time.Microsecond != 0 {
		return fmt.Errorf("phase %s must be whole microseconds between 0 and the period of %s", l.Phase, l.Period)
	}
	l.Const[windowPeriod] = micros.Of(l.Period)
	l.Const[windowPhase] = micros.Of(l.Phase)
	l.Cells, l.Layout = 2, "end,count"
	l.Price = fmt.Sprint(l.Const[windowPeriod], l.Const[windowPhase], l.Anchor, l.Calendar, l.Location)
	touched := int64(2)
	switch l.Anchor {
	case params.AnchorEpoch, params.AnchorFirst:
	case params.AnchorCalendar:
		shortest := shortestWindow(l)
		if shortest == 0 {
			return fmt.Errorf("calendar unit %d is not known: use days, weeks, months or years", l.Calendar)
		}
		touched = 1 + int64((l.Period+shortest-1)/shortest)
	default:
		return fmt.Errorf("anchor %d is not known: use the epoch, the first request or the calendar", l.Anchor)
	}
	// Thousands of days can lie in a period of ten years: cut to what fits.
	l.Envelope = min(l.Count, (1<<62)/touched) * touched
	return nil
}

// Step implements weir.Algorithm.
func (fixedWindow) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	c := loadCounter(cells, a.Now)
	allowed := c.admitFixed(cells, l, a)
	return c.describe(l, a, allowed)
}

// admitFixed decides and charges.
func (c *counter) admitFixed(cells []int64, l *weir.Limit, a weir.Ask) bool {
	allowed := c.allows(l, a)
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		if c.count > 0 && (a.ID == 0 || a.ID == c.end) {
			c.refund(cells, a.Cost)
		}
	case allowed && a.Verb == weir.Spend, a.Verb == weir.Force:
		if c.count == 0 {
			c.end = windowEnd(l, a.Now)
		}
		c.spend(cells, a.Cost)
	}
	return allowed
}

// Carry implements weir.Carrier.
func (fixedWindow) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	return carryByForce(cells, l, old, was, now)
}

// Spent implements weir.Carrier. Of a period that reaches into the window before it knows
// too little.
func (fixedWindow) Spent(cells []int64, _ *weir.Limit, now int64, f func(at, units int64)) bool {
	if c := loadCounter(cells, now); c.count > 0 {
		f(now, c.count)
	}
	return false
}

// windowEnd returns the end of the window that a first unit at now opens. It
// runs once a window; a store's script gets the end of a calendar window as an
// argument.
func windowEnd(l *weir.Limit, now int64) int64 {
	switch l.Anchor {
	case params.AnchorFirst:
		return now + l.Const[windowPeriod]
	case params.AnchorCalendar:
		return calendarEnd(l, now)
	}
	return windowStart(now-l.Const[windowPhase], l.Const[windowPeriod]) + l.Const[windowPhase] + l.Const[windowPeriod]
}

// windowStart returns the largest multiple of period that is not after now. The
// remainder is the one division of the admitting halves: it is exact in a
// script's doubles as well, as both numbers are whole and below 2^53.
func windowStart(now, period int64) int64 {
	r := now % period
	if r < 0 {
		r += period
	}
	return now - r
}

//go:embed fixed_window.lua
var fixedWindowLua string

// Script implements Scripted.
func (fixedWindow) Script() Script {
	return Script{Name: "fixed_window", Text: fixedWindowLua, Spans: 1, States: 2}
}

// Consts implements Scripted. The script gets the calendar's edges around now,
// one more on each side in case that the store's clock is in the next window or
// the one before.
func (fixedWindow) Consts(dst []int64, l *weir.Limit, now int64) ([]int64, int64) {
	dst = append(dst, l.Count, int64(l.Anchor), l.Const[windowPeriod], l.Const[windowPhase])
	if l.Anchor != params.AnchorCalendar {
		return dst, forever
	}
	end := calendarEnd(l, now)
	start := calendarStart(l, now)
	return append(dst, calendarStart(l, start-1), start, end, calendarEnd(l, end)), end
}

// Span implements Scripted.
func (fixedWindow) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (fixedWindow) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	return describeCounter(l, a, allowed, state)
}
