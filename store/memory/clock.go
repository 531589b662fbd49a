package memory

import (
	"sync/atomic"
	"time"
)

const (
	// anchorEvery is how often, in monotonic nanoseconds, the clock is compared
	// with wall time.
	anchorEvery = int64(time.Second)
	// slew is by how much a clock that is ahead goes slower: one part in 2^slew.
	slew = 4
)

// A clock tells microseconds since the Unix epoch. It runs on the monotonic
// clock, which costs half of what wall time does, and is compared with wall
// time once a second by whoever reads it then: behind it, it jumps; ahead of it,
// it goes slower until wall time has caught up. So it never goes back.
//
// Safe for concurrent use.
type clock struct {
	base   time.Time
	anchor atomic.Pointer[anchor]
}

// An anchor ties a monotonic instant, in nanoseconds, to a time in microseconds.
// It never changes.
type anchor struct {
	mono, micros int64
	slow         bool
}

func newClock() *clock {
	now := time.Now()
	c := &clock{base: now}
	c.anchor.Store(&anchor{micros: now.UnixMicro()})
	return c
}

func (c *clock) now() int64 {
	mono := int64(time.Since(c.base))
	a := c.anchor.Load()
	if mono-a.mono >= anchorEvery {
		n := a.next(mono, time.Now().UnixMicro())
		if c.anchor.CompareAndSwap(a, &n) {
			return n.micros
		}
		a = c.anchor.Load()
	}
	return a.at(mono)
}

// at returns the time at the monotonic instant mono.
func (a *anchor) at(mono int64) int64 {
	since := (mono - a.mono) / 1000
	if a.slow {
		since -= since >> slew
	}
	return a.micros + since
}

// next returns the anchor to follow a at mono, when wall time is wall.
func (a *anchor) next(mono, wall int64) anchor {
	told := a.at(mono)
	if wall >= told {
		return anchor{mono: mono, micros: wall}
	}
	return anchor{mono: mono, micros: told, slow: true}
}
