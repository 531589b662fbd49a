package memory

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

func TestClockFollowsWallTimeAndNeverGoesBack(t *testing.T) {
	for name, perMicro := range map[string]uint64{"monotonic clock": 0, "counter": 2596} {
		t.Run(name, func(t *testing.T) { follow(t, perMicro) })
	}
}

func follow(t *testing.T, perMicro uint64) {
	const second = int64(time.Second)
	at := func(mono int64) instant { return instant{mono: mono, ticks: uint64(second+mono) / 1000 * perMicro} }
	a := anchor{instant: at(-second), nowFunc: 0, counts: perMicro > 0}
	told := int64(0)
	step := func(mono, wall int64) int64 {
		t.Helper()
		i := at(mono)
		i.wall = wall
		a = a.nextAnchor(i)
		now := a.timeAtInstant(at(mono))
		if now < told {
			t.Fatalf("at %d the clock went back from %d to %d", mono, told, now)
		}
		if a.counts != (perMicro > 0) || (mono > 0 && (a.scale > 0) != a.counts) {
			t.Fatalf("at %d: %+v", mono, a)
		}
		told = now
		return now
	}
	step(0, 1_000_000)
	if got := a.timeAtInstant(at(second / 2)); got != 1_500_000 {
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
	if got := step(mono, wall); got < 9_999_999 || got > 10_000_000 {
		t.Errorf("wall time behind: %d, want no jump", got)
	}
	seconds := 0
	for told > wall {
		for i := range int64(10) {
			if now := a.timeAtInstant(at(mono + i*second/10)); now < told {
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
	c := newClock(nil)
	last := int64(0)
	for range 1000 {
		now := c.now(0)
		if now < last {
			t.Fatalf("went back from %d to %d", last, now)
		}
		last = now
	}
	if off := time.Now().UnixMicro() - c.now(0); off > 1e6 || off < -1e6 {
		t.Errorf("the clock is %d µs off", off)
	}
}

// A clock that is a little ahead waits for that little.
func TestClockThatIsALittleAhead(t *testing.T) {
	a := anchor{instant: instant{wall: 1000}, nowFunc: 1010, ahead: 10}
	for since, want := range map[int64]int64{0: 1010, 16: 1025, 160: 1160, 161: 1161, 1_000_000: 1_001_000} {
		if got := a.timeAfter(since); got != want {
			t.Errorf("%d µs after: %d, want %d", since, got, want)
		}
	}
}

// A counter that does not tell what the monotonic clock does is not used again; one
// that could not be read closely is, a while later.
func TestCounterIsChecked(t *testing.T) {
	const second = int64(time.Second)
	a := anchor{instant: instant{ticks: 1}, counts: true}
	at := func(seconds int64, perMicro uint64) instant {
		return instant{mono: seconds * second, ticks: 1 + uint64(seconds)*1_000_000*perMicro, wall: seconds * 1_000_000}
	}
	for name, bad := range map[string]instant{
		"stands":         {mono: 2 * second, ticks: at(1, 3000).ticks},
		"went back":      {mono: 2 * second, ticks: 1},
		"jumped":         {mono: 2 * second, ticks: at(3, 3000).ticks},
		"goes too fast":  {mono: 2 * second, ticks: at(1, 3000).ticks + 1_002_000*3000},
		"goes too slow":  {mono: 2 * second, ticks: at(1, 3000).ticks + 998_000*3000},
		"after an hour ": {mono: 3600 * second, ticks: at(3590, 3000).ticks},
	} {
		b := a.nextAnchor(at(1, 3000))
		if b.scale == 0 || b.every != 3_000_000_000 {
			t.Fatalf("not measured: %+v", b)
		}
		c := b.nextAnchor(bad)
		if c.counts || c.scale != 0 {
			t.Errorf("%s: %+v", name, c)
		}
		if d := c.nextAnchor(at(5000, 3000)); d.counts || d.scale != 0 {
			t.Errorf("%s: trusted again: %+v", name, d)
		}
	}
	for _, perMicro := range []uint64{0, 1, 50, 20_000} {
		if b := a.nextAnchor(at(1, perMicro)); b.counts || b.scale != 0 {
			t.Errorf("%d ticks a microsecond: %+v", perMicro, b)
		}
	}
	b := a.nextAnchor(at(1, 3000))
	soon := at(1, 3000)
	soon.mono, soon.ticks = soon.mono+100, soon.ticks+1
	if g := b.nextAnchor(soon); !g.counts || g.rate != b.rate {
		t.Errorf("after 100 ns, of which nothing can be told: %+v", g)
	}
	vague := at(2, 3000)
	vague.ticks = 0
	c := b.nextAnchor(vague)
	d := c.nextAnchor(at(3, 3000))
	e := d.nextAnchor(at(4, 3000))
	if c.scale != 0 || d.scale != 0 || !c.counts || e.scale == 0 {
		t.Errorf("after a look that was not close: %+v, %+v, %+v", c, d, e)
	}
	// Slewed by NTP, and weeks without a request.
	month := at(30*86400, 3000)
	month.mono += month.mono / 2000
	month.wall = month.mono / 1000
	if f := e.nextAnchor(month); f.scale == 0 || f.nowFunc != month.wall || f.ahead != 0 {
		t.Errorf("after a month: %+v", f)
	}
}

// In a bubble of testing/synctest the clock tells the time of the bubble.
func TestClockInABubble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClock(nil)
		for range 100 {
			time.Sleep(37 * time.Millisecond)
			if now, want := c.now(0), time.Now().UnixMicro(); now != want {
				t.Fatalf("%d, want %d", now, want)
			}
		}
	})
}

// The counter tells the same time as the monotonic clock, from whichever processor it
// is read.
func TestClocksAgree(t *testing.T) {
	if !counterKeepsTime() {
		t.Skip("the kernel does not keep time by the processor's counter")
	}
	c := newClock(nil)
	a := *c.anchor.Load()
	for a.scale == 0 && a.counts {
		i := c.readClocks(true)
		if i.mono-a.mono > int64(10*time.Millisecond) {
			a = a.nextAnchor(i)
		}
	}
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for range 20_000 {
				before := int64(time.Since(c.base))
				ticks := readCounter()
				after := int64(time.Since(c.base))
				told := (a.timeAtInstant(instant{ticks: ticks, mono: after}) - a.nowFunc) * 1000
				const off = int64(500 * time.Microsecond)
				if told < before-a.mono-off || told > after-a.mono+off {
					t.Errorf("%d ns after the anchor, where the monotonic clock has %d to %d", told, before-a.mono, after-a.mono)
					return
				}
			}
		})
	}
	wg.Wait()
}
