package memory

import (
	"testing"
	"time"
)

func TestClockFollowsWallTimeAndNeverGoesBack(t *testing.T) {
	const second = int64(time.Second)
	a := anchor{micros: 1_000_000}
	told := a.at(0)
	step := func(mono, wall int64) int64 {
		t.Helper()
		a = a.next(mono, wall)
		now := a.at(mono)
		if now < told {
			t.Fatalf("at %d the clock went back from %d to %d", mono, told, now)
		}
		told = now
		return now
	}
	if got := a.at(second / 2); got != 1_500_000 {
		t.Errorf("half a second after the anchor: %d", got)
	}
	if got := step(second, 2_000_000); got != 2_000_000 {
		t.Errorf("in step with wall time: %d", got)
	}
	if got := step(2*second, 9_000_000); got != 9_000_000 {
		t.Errorf("wall time ahead: %d, want a jump to it", got)
	}
	// Wall time goes back by a second: the clock slows down until they meet.
	wall, mono := int64(9_000_000), 3*second
	if got := step(mono, wall); got != 10_000_000 {
		t.Errorf("wall time behind: %d, want no jump", got)
	}
	seconds := 0
	for told > wall {
		for i := range int64(10) {
			if now := a.at(mono + i*second/10); now < told {
				t.Fatalf("went back from %d to %d", told, now)
			} else {
				told = now
			}
		}
		mono, wall = mono+second, wall+1_000_000
		step(mono, wall)
		if seconds++; seconds > 20 {
			t.Fatalf("still %d ahead after %d seconds", told-wall, seconds)
		}
	}
	if seconds < 15 {
		t.Errorf("caught up a second within %d: faster than one part in 16", seconds)
	}
	if got := step(mono+second, wall+1_000_000); got != wall+1_000_000 {
		t.Errorf("caught up, but %d is not wall time", got)
	}
}

func TestClockTellsTheTime(t *testing.T) {
	c := newClock()
	last := int64(0)
	for range 1000 {
		now := c.now()
		if now < last {
			t.Fatalf("went back from %d to %d", last, now)
		}
		last = now
	}
	if off := time.Now().UnixMicro() - c.now(); off > 1e6 || off < -1e6 {
		t.Errorf("the clock is %d µs off", off)
	}
}
