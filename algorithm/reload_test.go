package algorithm_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/history"
)

// become has the key go on under n, as a store does.
func (p *player) become(n *weir.Limit) {
	p.cells, p.l = history.Carry(n, p.cells, p.l, p.now), n
}

// changed returns the limit with another count, period and burst, or nil when
// the algorithm does not take it or reads its cells in another way.
func changed(l *weir.Limit, count int64, period time.Duration, burst int64) *weir.Limit {
	n := &weir.Limit{Algorithm: l.Algorithm, Count: count, Period: period, Burst: burst, Params: l.Params}
	if n.Compile() != nil || n.Layout != l.Layout {
		return nil
	}
	return n
}

// TestReloadKeepsWhatWasSpent changes the count of a key in use: it has then
// what it would have had under the new count from the start.
func TestReloadKeepsWhatWasSpent(t *testing.T) {
	f := func(name string, l *weir.Limit, count, want int64) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		n := changed(l, count, l.Period, 0)
		if n == nil {
			t.Fatalf("%s: a count of %d starts afresh", name, count)
		}
		cells := newRow(l)
		const now = 1_700_000_000_000_000
		p := &player{l: l, cells: cells, now: now}
		for id := range int64(6) {
			p.answer(weir.Ask{Now: now, Cost: 1, ID: id + 1})
		}
		p.become(n)
		if d := p.answer(weir.Ask{Now: now}); d.Remaining != want {
			t.Errorf("%s: %d of %d left after 6 of %d were spent, want %d", name, d.Remaining, count, l.Count, want)
		}
	}
	for _, a := range algorithm.All {
		if a.Traits()&(weir.Sketches|weir.Shapes) != 0 {
			continue
		}
		name := a.Name()
		f(name, weir.PerMinute(10, a), 20, 14)
		f(name, weir.PerMinute(10, a), 7, 1)
		f(name, weir.PerMinute(10, a), 3, 0)
	}
	f("sliding_window", weir.PerMinute(2, algorithm.SlidingWindow), 20, 18)
	f("sliding_window", weir.PerMinute(16_384, algorithm.SlidingWindow), 21, 15)
	f("sliding_window", weir.PerMinute(21, algorithm.SlidingWindow), 16_384, 16_378)
	f("sliding_window", weir.PerMinute(weir.MaxCost, algorithm.SlidingWindow), 16_385, 16_379)
	f("sliding_window", weir.PerMinute(16_385, algorithm.SlidingWindow), weir.MaxCost, weir.MaxCost-6)
	// The word of a sliding counter is read by its period alone.
	f("sliding_counter", weir.PerMinute(10, algorithm.SlidingCounter), 200_000, 199_994)
	f("sliding_counter", weir.PerMinute(300_000, algorithm.SlidingCounter), 1<<50, 1<<50-6)
	f("sliding_subwindows", weir.PerMinute(10, algorithm.SlidingSubwindows), 65_535, 65_529)
}

// TestReloadStartsAfreshOnlyAsStated lists the changes that change the layout.
func TestReloadStartsAfreshOnlyAsStated(t *testing.T) {
	f := func(l *weir.Limit, count int64, period time.Duration, kept bool) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if got := changed(l, count, period, 0) != nil; got != kept {
			t.Errorf("%s %d per %s to %d per %s: kept %v, want %v",
				l.Algorithm.Name(), l.Count, l.Period, count, period, got, kept)
		}
	}
	f(weir.PerMinute(10, algorithm.FixedWindow), 1<<50, time.Hour, true)
	f(weir.PerMinute(10, algorithm.SlidingWindow), 10, time.Hour, false)
	f(weir.PerMinute(2, algorithm.SlidingWindow), 1, time.Minute, true)
	f(weir.PerMinute(2, algorithm.SlidingWindow), 20, time.Minute, true)
	f(weir.PerMinute(20, algorithm.SlidingWindow), 21, time.Minute, true)
	f(weir.PerMinute(21, algorithm.SlidingWindow), 16_384, time.Minute, true)
	f(weir.PerMinute(16_384, algorithm.SlidingWindow), 16_385, time.Minute, true)
	f(weir.PerMinute(16_385, algorithm.SlidingWindow), weir.MaxCost, time.Minute, true)
	f(weir.PerMinute(10, algorithm.SlidingCounter), 10, time.Hour, false)
	f(weir.PerMinute(10, algorithm.SlidingCounter), 300_000, time.Minute, true)
	f(weir.PerMinute(10, algorithm.SlidingSubwindows), 10, time.Hour, false)
	f(weir.PerMinute(10, algorithm.SlidingSubwindows), 65_536, time.Minute, false)
	f(weir.PerMinute(100, algorithm.TokenBucket), 2039, time.Minute, true)
	f(weir.PerMinute(100, algorithm.TokenBucket), 10_000, time.Hour, true)
	f(weir.PerMinute(100, algorithm.TokenBucket), 7919, time.Minute, true)
	f(weir.PerMinute(7919, algorithm.LeakyBucket), 9973, time.Minute, true)
	f(weir.PerMinute(10, algorithm.SlidingLog), 9_999, time.Hour, true)
	f(weir.PerMinute(10, algorithm.Concurrency), 9_999, time.Hour, true)
	f(weir.PerMinute(10, algorithm.Lockout), 9_999, time.Hour, true)
}

// TestReloadToSoftKnowsItsLayout: the raised count of a soft limit can need
// wider cells than its count, and must then not find the narrow ones.
func TestReloadToSoftKnowsItsLayout(t *testing.T) {
	limit := func(excess int64) *weir.Limit {
		l := weir.PerMinute(200_000, algorithm.SlidingCounter)
		l.Scope, l.Excess = "api", excess
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if hard, soft := limit(0), limit(50); hard.Cells == soft.Cells || hard.RowID() == soft.RowID() {
		t.Errorf("hard: %d cells, ID %x; soft: %d cells, ID %x", hard.Cells, hard.RowID(), soft.Cells, soft.RowID())
	}
	if hard, soft := limit(0), limit(5); hard.Cells != soft.Cells || hard.RowID() != soft.RowID() {
		t.Error("a little excess starts afresh")
	}
}

// TestReloadNeverBreaksInvariants changes every figure of a limit at random in
// the life of a key, as often as its layout allows.
func TestReloadNeverBreaksInvariants(t *testing.T) {
	eachLife(t, 60, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p := newPlayer(c, l, r)
		for n := range 150 {
			if n%5 == 0 {
				other := c.limit(r)
				if r.IntN(2) > 0 {
					other.Period = l.Period
				}
				if next := changed(l, other.Count, other.Period, other.Burst); next != nil {
					p.become(next)
				}
			}
			p.now = max(p.now+p.elapse(), 0)
			a := p.ask()
			if err := invariants(p.l, a, p.c.most(p.l), p.answer(a)); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// TestReloadPeriod changes the period of a key in use.
func TestReloadPeriod(t *testing.T) {
	const now = 1_700_000_040_000_000 // the start of a minute
	f := func(a weir.Algorithm, from, to, later, retry time.Duration) {
		t.Helper()
		l := &weir.Limit{Algorithm: a, Count: 2, Period: from}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		p := &player{l: l, cells: newRow(l)}
		p.answer(weir.Ask{Now: now, Cost: 2, ID: 1})
		n := changed(l, 2, to, 0)
		if n == nil {
			t.Fatalf("%s: starts afresh", a.Name())
		}
		p.now = now + later.Microseconds()
		p.become(n)
		d := p.answer(weir.Ask{Now: now + later.Microseconds(), Cost: 1, ID: 2})
		if d.RetryAfter != retry {
			t.Errorf("%s from %s to %s: retry after %s, want %s", a.Name(), from, to, d.RetryAfter, retry)
		}
	}
	const s = time.Second
	// What a window counts is counted in that of the new period; a run and a lease keep
	// their end.
	f(algorithm.FixedWindow, 60*s, s, 10*s, s)
	f(algorithm.FixedWindow, 60*s, 3600*s, 10*s, 2750*s)
	f(algorithm.FixedWindow, 60*s, 3600*s, 60*s, 0)
	f(algorithm.Lockout, 60*s, s, 10*s, 50*s)
	f(algorithm.Concurrency, 60*s, s, 10*s, 50*s)
	// A log is read with the new period, but not beyond its stamp.
	f(algorithm.SlidingLog, 60*s, 20*s, 10*s, 10*s)
	f(algorithm.SlidingLog, 60*s, 20*s, 20*s, 0)
	f(algorithm.SlidingLog, 60*s, 3600*s, 10*s, 50*s)
}

// TestFamilyLoweredCountForgetsNothing lowers and raises the count of a window at one
// instant, with units spent, incurred and given back under each: the largest count
// always has what was spent and not given back.
func TestFamilyLoweredCountForgetsNothing(t *testing.T) {
	cases := []struct {
		algorithm   weir.Algorithm
		least, most int64
	}{
		{algorithm.SlidingWindow, 2, 20},
		{algorithm.SlidingWindow, 21, 16_384},
		{algorithm.SlidingWindow, 16_385, 1 << 40},
		{algorithm.SlidingCounter, 1, 200_000},
		{algorithm.SlidingSubwindows, 1, 65_535},
		{algorithm.FixedWindow, 1, 1 << 40},
	}
	for life := range lives(t, 300, 30_000) {
		r := rand.New(rand.NewPCG(uint64(life), 43))
		x := cases[life%len(cases)]
		least, most := x.least, x.most
		version := func(n int64) *weir.Limit {
			return mustCompile(t, weir.PerMinute(n, x.algorithm))
		}
		largest := version(most)
		l, cells, spent := largest, newRow(largest), int64(0)
		now := int64(1_700_000_000_000_000)
		for step := range 200 {
			a := weir.Ask{Now: now, Cost: 1 + r.Int64N(max(most/100, 1))}
			switch r.IntN(8) {
			case 0:
				l = version(least + int64(float64(most-least)*r.Float64()*r.Float64()*r.Float64()))
			case 1:
				l = largest
			case 2:
				if a.Cost > spent {
					continue
				}
				a.Verb = weir.Refund
			case 3:
				// Of costs that were incurred above a count only the newest are remembered.
				if l = largest; a.Cost > most-spent {
					continue
				}
				a.Verb = weir.Force
			}
			d := l.Algorithm.Step(cells, l, a)
			switch {
			case a.Verb == weir.Refund:
				spent -= a.Cost
			case a.Verb == weir.Force || d.Allowed():
				spent += a.Cost
			}
			if left := largest.Algorithm.Step(cells, largest, weir.Ask{Now: now}).Remaining; left != most-spent {
				t.Fatalf("%s, life %d, step %d, %d of %d by %d per minute: %d left, want %d", x.algorithm.Name(), life, step, a.Cost, a.Verb, l.Count, left, most-spent)
			}
			if l == largest {
				now += r.Int64N(1000)
			}
		}
	}
}
