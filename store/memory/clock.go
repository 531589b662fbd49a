package memory

import (
	"sync/atomic"
	"time"
)

const (
	// anchorEvery is how often, in monotonic nanoseconds, the clock is compared
	// with wall time.
	anchorEvery = int64(time.Second)
	// anchorFirst is the same as long as the counter's rate is not known.
	anchorFirst = int64(10 * time.Millisecond)
	// slew is by how much a clock that is ahead goes slower: one part in 2^slew.
	slew = 4
)

// A clock tells microseconds since the Unix epoch. It runs on the processor's
// counter where the kernel itself keeps time by it, which costs a third of what
// wall time does, and else on the monotonic clock, which costs half. It is compared
// with wall time once a second by whoever reads it then: behind it, it jumps; ahead
// of it, it goes slower until wall time has caught up. So it never goes back. A
// counter that has strayed from the monotonic clock meanwhile is not used again.
//
// Safe for concurrent use.
type clock struct {
	// nowFunc tells the time instead, if it is not nil.
	nowFunc func() int64
	base    time.Time
	anchor  atomic.Pointer[anchor]
}

// An instant is one point in time on every clock.
type instant struct {
	mono  int64  // nanoseconds since the clock was made
	ticks uint64 // of the processor's counter; zero where they are not known closely
	wall  int64  // microseconds since the Unix epoch
}

// An anchor ties an instant to the time of it. It never changes.
type anchor struct {
	instant
	nowFunc int64
	// ahead is by how many microseconds the clock is ahead of wall time.
	ahead int64
	// counts is set as long as the counter is to be trusted.
	counts bool
	rate
}

// newClock returns a clock that reads the time from nowFunc, by its own means if that is nil.
func newClock(nowFunc func() int64) *clock {
	c := &clock{nowFunc: nowFunc, base: time.Now()}
	// Where the time is made up, as in a bubble of testing/synctest, which begins
	// in the year 2000, no counter tells it.
	a := &anchor{counts: nowFunc == nil && c.base.Year() >= 2020 && counterKeepsTime()}
	a.instant = c.readClocks(a.counts)
	a.nowFunc = a.wall
	c.anchor.Store(a)
	return c
}

// now returns the time, and not before last, which it has told before. What tells
// the time instead of the clock may go back, as in a replay.
//
// Nothing keeps the processor from reading its counter early, while it still waits
// for a lock that precedes the call: under a lock, last is what was told under it
// before, or the time can go back there by as much as the processor reads ahead.
func (c *clock) now(last int64) int64 {
	a := c.anchor.Load()
	if a.scale == 0 {
		return c.withoutCounter(a, last)
	}
	n := readCounter() - a.ticks
	if n >= a.every {
		return c.renewAnchor(a, last)
	}
	return max(a.timeAfter(a.toMicros(n)), last)
}

func (c *clock) withoutCounter(a *anchor, last int64) int64 {
	if c.nowFunc != nil {
		return c.nowFunc()
	}
	n := int64(time.Since(c.base)) - a.mono
	if n >= anchorEvery || n >= anchorFirst && a.counts {
		return c.renewAnchor(a, last)
	}
	return max(a.timeAfter(n/1000), last)
}

// renewAnchor ties the clock to the present instant.
func (c *clock) renewAnchor(a *anchor, last int64) int64 {
	n := a.nextAnchor(c.readClocks(a.counts))
	if c.anchor.CompareAndSwap(a, &n) {
		return max(n.nowFunc, last)
	}
	return c.now(last)
}

// readClocks reads every clock, the counter if it counts.
func (c *clock) readClocks(counts bool) instant {
	// Whoever lost the processor in between does not know when it read what.
	const tries, closely = 8, 1 << 12 // ticks: a microsecond or two
	for try := 0; counts && try < tries; try++ {
		before := readCounter()
		i := c.instant()
		if took := readCounter() - before; took < closely {
			i.ticks = before + took/2
			return i
		}
	}
	return c.instant()
}

// instant reads what a time.Time has.
func (c *clock) instant() instant {
	now := time.Now()
	return instant{mono: int64(now.Sub(c.base)), wall: now.UnixMicro()}
}

// timeAfter returns the time so many microseconds after the anchor.
func (a *anchor) timeAfter(micros int64) int64 {
	if a.ahead > 0 {
		micros -= min(micros>>slew, a.ahead)
	}
	return a.nowFunc + micros
}

// timeAtInstant returns the time that is told at i.
func (a *anchor) timeAtInstant(i instant) int64 {
	if n := i.ticks - a.ticks; a.scale != 0 && i.ticks != 0 && n < 4*a.every {
		return a.timeAfter(a.toMicros(n))
	}
	return a.timeAfter((i.mono - a.mono) / 1000)
}

// nextAnchor returns the anchor to follow a at i.
func (a *anchor) nextAnchor(i instant) anchor {
	n := anchor{instant: i, nowFunc: i.wall, counts: a.counts}
	if nowFunc := a.timeAtInstant(i); i.wall < nowFunc {
		n.nowFunc, n.ahead = nowFunc, nowFunc-i.wall
	}
	switch {
	case a.ticks == 0 || i.ticks == 0 || !n.counts:
	case i.mono-a.mono < anchorFirst:
		// Too short to measure: somebody read the counter before a was tied, and it
		// after that.
		n.rate = a.rate
	default:
		n.rate, n.counts = a.measure(a.instant, i)
	}
	return n
}
