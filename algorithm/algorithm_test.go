package algorithm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

func TestByName(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range algorithm.All {
		if seen[a.Name()] {
			t.Errorf("two algorithms are named %s", a.Name())
		}
		seen[a.Name()] = true
		if algorithm.ByName(a.Name()) != a {
			t.Errorf("%s is not found by its name", a.Name())
		}
	}
	if algorithm.ByName("lucky_bucket") != nil {
		t.Error("an unknown name is found")
	}
}

func TestPrepareRefusesWhatCannotWork(t *testing.T) {
	f := func(a weir.Algorithm, want string, change func(l *weir.Limit)) {
		t.Helper()
		l := weir.PerMinute(10, a)
		change(l)
		if err := l.Compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one that says %q", a.Name(), err, want)
		}
	}
	f(algorithm.FixedWindow, "phase -1s", func(l *weir.Limit) { l.Phase = -time.Second })
	f(algorithm.FixedWindow, "phase 2m0s", func(l *weir.Limit) { l.Phase = 2 * time.Minute })
	f(algorithm.FixedWindow, "phase 1ns", func(l *weir.Limit) { l.Phase = 1 })
	f(algorithm.FixedWindow, "anchor 9", func(l *weir.Limit) { l.Anchor = 9 })
	f(algorithm.FixedWindow, "calendar unit 9", func(l *weir.Limit) { l.Anchor, l.Calendar = params.AnchorCalendar, 9 })
	f(algorithm.SlidingWindow, "grain -1", func(l *weir.Limit) { l.Grain = -1 })
	f(algorithm.SlidingWindow, "grain 5", func(l *weir.Limit) { l.Grain = 5 })
	f(algorithm.SlidingSubwindows, "precision 1 ", func(l *weir.Limit) { l.Precision = 1 })
	f(algorithm.SlidingSubwindows, "precision 241", func(l *weir.Limit) { l.Precision = 241 })
	f(algorithm.SlidingSubwindows, "form 9", func(l *weir.Limit) { l.Form = 9 })
	f(algorithm.SlidingLog, "use sliding_subwindows", func(l *weir.Limit) { l.Count = 10_001 })
	f(algorithm.SlidingLog, "a log of 6 units", func(l *weir.Limit) { l.Count, l.MaxLog = 6, 5 })
	f(algorithm.SlidingLog, "max_log 1048576", func(l *weir.Limit) { l.MaxLog = 1 << 20 })
	f(algorithm.Concurrency, "10000 leases", func(l *weir.Limit) { l.Count = 10_001 })
	f(algorithm.Approximate, "count 4294967296", func(l *weir.Limit) { l.Count = 1 << 32 })
	f(algorithm.Approximate, "width 100 must be a power of two, such as 128", func(l *weir.Limit) { l.Sketch.Width = 100 })
	f(algorithm.Approximate, "depth 17", func(l *weir.Limit) { l.Sketch.Depth = 17 })
	f(algorithm.Approximate, "expect -1", func(l *weir.Limit) { l.Sketch.Expect = -1 })
}

// TestStateIsAsDocumented holds the sizes that the doc comments and the
// capacity table state.
func TestStateIsAsDocumented(t *testing.T) {
	f := func(l *weir.Limit, bytes int) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if l.Cells*8 != bytes {
			t.Errorf("%s of %s: %d bytes, want %d", l.Name, l.Algorithm.Name(), l.Cells*8, bytes)
		}
	}
	f(weir.PerMinute(100, algorithm.FixedWindow), 16)
	f(weir.PerMinute(1, algorithm.SlidingWindow), 8)
	f(weir.PerMinute(2, algorithm.SlidingWindow), 16)
	f(weir.PerMinute(20, algorithm.SlidingWindow), 16)
	f(weir.PerMinute(21, algorithm.SlidingWindow), 24)
	f(weir.PerDay(16_384, algorithm.SlidingWindow), 24)
	f(weir.PerDay(16_385, algorithm.SlidingWindow), 32)
	f(weir.PerSecond(weir.MaxCost, algorithm.SlidingWindow), 32)
	f(weir.PerSecond(32_767, algorithm.SlidingCounter), 8)
	f(weir.PerSecond(32_768, algorithm.SlidingCounter), 24)
	f(weir.PerMinute(262_143, algorithm.SlidingCounter), 8)
	f(weir.PerMinute(262_144, algorithm.SlidingCounter), 24)
	f(weir.PerHour(2_097_151, algorithm.SlidingCounter), 8)
	f(weir.PerHour(2_097_152, algorithm.SlidingCounter), 24)
	f(weir.PerMinute(65_535, algorithm.SlidingSubwindows), 136)
	f(weir.PerMinute(65_536, algorithm.SlidingSubwindows), 256)
	f(weir.PerMinute(1<<32, algorithm.SlidingSubwindows), 496)
	f(weir.PerMinute(10, algorithm.Lockout), 16)
	// At most; rows grow.
	f(weir.PerMinute(10_000, algorithm.SlidingLog), 8*10_000+16)
	f(weir.PerMinute(10_000, algorithm.Concurrency), 24*10_000+8)
}

// TestRowsGrowAsTheyAreUsed holds the sizes of the rows that grow.
func TestRowsGrowAsTheyAreUsed(t *testing.T) {
	for _, c := range []struct {
		a         weir.Algorithm
		head, one int
	}{{algorithm.SlidingLog, 2, 1}, {algorithm.Concurrency, 1, 3}} {
		l := weir.PerMinute(10, c.a)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		p := &player{l: l, cells: newRow(l)}
		for n := range 10 {
			p.answer(weir.Ask{Now: 1 << 50, Cost: 1, ID: int64(n + 1)})
			if want := c.head + (n+1)*c.one; len(p.cells) != want {
				t.Errorf("%s: %d cells for %d units, want %d", l.Algorithm.Name(), len(p.cells), n+1, want)
			}
		}
		p.answer(weir.Ask{Now: 1 << 50, Cost: 1, ID: 11})
		if c.a.Traits()&weir.Leases != 0 {
			p.answer(weir.Ask{Now: 1 << 50, Cost: 1, ID: 1}) // renewed, not added
		}
		if want := c.head + 10*c.one; len(p.cells) != want {
			t.Errorf("%s: a refusal made the row %d cells long, want %d", l.Algorithm.Name(), len(p.cells), want)
		}
		for n := range 10 {
			p.answer(weir.Ask{Now: 1<<50 + l.Period.Microseconds(), Cost: 1, ID: int64(n + 11)})
		}
		if want := c.head + 10*c.one; len(p.cells) != want {
			t.Errorf("%s: the row is %d cells long after its first units are over, want %d", l.Algorithm.Name(), len(p.cells), want)
		}
	}
}

// TestForcedLeasesAreNeverLost forces more leases than a key can hold.
func TestForcedLeasesAreNeverLost(t *testing.T) {
	l := weir.PerMinute(10_000, algorithm.Concurrency)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	cells := make([]int64, l.Cells)
	const now = 1 << 50
	for id := range int64(10_005) {
		l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1, ID: id + 1, Verb: weir.Force})
	}
	l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1, ID: 1, Verb: weir.Refund})
	d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1, ID: 20_000})
	if d.Allowed() || d.Remaining != 0 {
		t.Errorf("10,004 units are in use, and %+v", d)
	}
}

// TestWeightOfDebtDoesNotWrap forces a count whose weight is 2^64 exactly.
func TestWeightOfDebtDoesNotWrap(t *testing.T) {
	const period = 1 << 44
	l := &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 10, Period: period * time.Microsecond}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	cells := make([]int64, l.Cells)
	l.Algorithm.Step(cells, l, weir.Ask{Now: 64 * period, Cost: 1 << 20, Verb: weir.Force})
	if d := l.Algorithm.Step(cells, l, weir.Ask{Now: 65 * period, Cost: 1}); d.Allowed() || d.Remaining != 0 {
		t.Errorf("a million units over, and %+v", d)
	}
}

// TestLeaseWithoutNameNeverPasses: it could never be released.
func TestLeaseWithoutNameNeverPasses(t *testing.T) {
	l := weir.PerMinute(3, algorithm.Concurrency)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	p := &player{l: l, cells: newRow(l)}
	if d := p.answer(weir.Ask{Now: 1 << 50, Cost: 1}); d.RetryAfter != weir.Never {
		t.Errorf("got %+v", d)
	}
	if d := p.answer(weir.Ask{Now: 1 << 50, Cost: 3, Verb: weir.Peek}); !d.Allowed() {
		t.Errorf("a look needs no name, got %+v", d)
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	for _, a := range algorithm.All {
		l := weir.PerMinute(10, a)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		cells := make([]int64, l.Cells)
		now := int64(1 << 50)
		n := testing.AllocsPerRun(200, func() {
			now += 700_000
			for v := weir.Spend; v <= weir.Refund; v++ {
				l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1 + now%3, ID: 1, Verb: v})
			}
		})
		if n != 0 {
			t.Errorf("%s allocates %g times a step", a.Name(), n)
		}
	}
}

// BenchmarkStep times a decision of each algorithm, allowed unless it says
// otherwise, on a row in the cache.
func BenchmarkStep(b *testing.B) {
	for _, a := range algorithm.All {
		if a.Traits()&weir.Sketches != 0 {
			continue
		}
		l := weir.PerMinute(10_000, a)
		if err := l.Compile(); err != nil {
			b.Fatal(err)
		}
		b.Run(a.Name(), func(b *testing.B) {
			cells := make([]int64, l.Cells)
			now, refused := int64(1<<50), 0
			step := int64(7_000)
			if a == algorithm.Lockout {
				step = micros.Of(l.Period) // or the run would never end
			}
			for b.Loop() {
				now += step
				if !l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1, ID: 1}).Allowed() {
					refused++
				}
			}
			if refused > b.N/100 {
				b.Errorf("%d of %d refused", refused, b.N)
			}
		})
	}
}
