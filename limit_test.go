package weir_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// promises is an algorithm that lacks the methods of its traits.
type promises weir.Traits

func (promises) Name() string                                          { return "promises" }
func (p promises) Traits() weir.Traits                                 { return weir.Traits(p) }
func (promises) Prepare(l *weir.Limit) error                           { l.Cells = 1; return nil }
func (promises) Step([]int64, *weir.Limit, weir.Ask) (d weir.Decision) { return d }

func TestCompileRefusesWhatCannotWork(t *testing.T) {
	f := func(want string, change func(*weir.Limit)) {
		t.Helper()
		l := weir.PerSecond(10, algorithm.TokenBucket)
		l.Name = "login"
		change(l)
		err := l.Compile()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	f("no algorithm", func(l *weir.Limit) { l.Algorithm = nil })
	f("promise a weir.Lender", func(l *weir.Limit) { l.Algorithm = promises(weir.Lends) })
	f("promise a weir.Grower", func(l *weir.Limit) { l.Algorithm = promises(weir.Grows) })
	f("promise a weir.Shaper", func(l *weir.Limit) { l.Algorithm = promises(weir.Shapes) })
	f("promise a weir.Refiller", func(l *weir.Limit) { l.Algorithm = promises(weir.Refills) })
	f("no algorithm", func(l *weir.Limit) { l.Pool = &weir.Limit{Count: 1, Period: time.Second} })
	f("count 0", func(l *weir.Limit) { l.Count = 0 })
	f("count 9007199254740993", func(l *weir.Limit) { l.Count = weir.MaxCost + 1 })
	f("burst -1", func(l *weir.Limit) { l.Burst = -1 })
	f("whole number of microseconds", func(l *weir.Limit) { l.Period = time.Second + 1 })
	f("at most", func(l *weir.Limit) { l.Period = weir.MaxPeriod + time.Second })
	f("flow back", func(l *weir.Limit) { l.Period, l.Burst = time.Hour, 1<<50 })
	f("rollout 101%", func(l *weir.Limit) { l.Rollout = 101 })
	f("either soft or elastic", func(l *weir.Limit) { l.Excess, l.Pool = 10, weir.PerSecond(1, algorithm.TokenBucket) })
	f("elastic limit cannot be penalizing", func(l *weir.Limit) { l.Penalize, l.Pool = true, weir.PerSecond(1, algorithm.TokenBucket) })
	for _, a := range []weir.Algorithm{algorithm.Approximate, algorithm.Concurrency, algorithm.LeakyQueue} {
		f("a pool cannot be "+a.Name(), func(l *weir.Limit) { l.Pool = weir.PerSecond(1, a) })
	}
	f("a pool can have a reserve only", func(l *weir.Limit) {
		l.Pool = weir.PerSecond(1, algorithm.TokenBucket)
		l.Pool.Shadow = true
	})
	f("needs a pool", func(l *weir.Limit) { l.Ceiling = 20 })
	f("reserve of 10 units", func(l *weir.Limit) { l.Headroom = []int64{0, 10} })
	f("cannot be fetched ahead", func(l *weir.Limit) {
		l.Algorithm, l.Consistency.Mode = algorithm.SlidingLog, params.ConsistencyLeased
	})
	f("cannot be told later", func(l *weir.Limit) {
		l.Algorithm, l.Consistency.Mode = algorithm.Concurrency, params.ConsistencyEventual
	})
	f("must not be negative", func(l *weir.Limit) { l.Consistency.LeaseTTL = -1 })
	f("neither soft nor elastic", func(l *weir.Limit) { l.Algorithm, l.Excess = algorithm.LeakyQueue, 10 })
}

func TestRolloutEnforcesItsShareOfKeys(t *testing.T) {
	l := weir.PerSecond(10, algorithm.TokenBucket)
	l.Rollout = 30
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	var enforced int
	var r weir.Request
	for i := range 10_000 {
		ops := l.Append(nil, fmt.Sprintf("user:%d", i), 1, &r)
		again := l.Append(nil, fmt.Sprintf("user:%d", i), 1, &r)
		if ops[0].Role != again[0].Role {
			t.Fatal("the same key was treated in two ways")
		}
		if ops[0].Role == weir.Enforce {
			enforced++
		}
	}
	if enforced < 2850 || enforced > 3150 {
		t.Errorf("%d of 10,000 keys enforced, want about 3,000", enforced)
	}
}

func TestGuaranteeNamesItsSource(t *testing.T) {
	f := func(l *weir.Limit, s weir.Source, want weir.Guarantee) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		d := weir.Decision{Limit: l.From(s)}
		if got := d.Guarantee(); got != want || d.Degraded() != want.Degraded {
			t.Errorf("%s from %s: got %+v, degraded: %v, want %+v", l.Name, s, got, d.Degraded(), want)
		}
	}
	f(weir.PerMinute(5, algorithm.SlidingLog), weir.FromStore, weir.Guarantee{Exact: true, AtMost: 5, Envelope: 5})
	f(weir.PerMinute(5, algorithm.SlidingLog), weir.FromSketch, weir.Guarantee{AtMost: 5, Envelope: 5, Source: weir.FromSketch, Degraded: true})
	// A sketch is where an approximate limit always counts: not a degraded store.
	f(weir.PerMinute(5, algorithm.Approximate), weir.FromStore, weir.Guarantee{AtMost: 5, Envelope: 5, Source: weir.FromSketch})
}

func TestKeysOfSeveralPartsAreUnambiguous(t *testing.T) {
	var r weir.Request
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a\x1fb", ""}, {"a", "\x1fb"}, {"a\x1f", "b"},
		{"a\x1f1", "b"}, {"a", "b\x1f1"}, {"", ""}, {"\x1f", ""}, {"", "\x1f"},
		{"a\x1fb", "c", "d"}, {"a", "b\x1fc", "d"}, {"a", "b", "c\x1fd"}, {"0123456789\x1fb", "c"}, {"0123456789", "b\x1fc"},
	} {
		key := r.Key(parts...)
		if before, ok := seen[key]; ok {
			t.Errorf("%q and %q have the same key", before, parts)
		}
		seen[key] = parts
	}
	if got := r.Key("alone"); got != "alone" {
		t.Errorf("a single part became %q", got)
	}
}

func TestSoftLimitAdvertisesWhatItEnforces(t *testing.T) {
	l := weir.PerMinute(100, algorithm.TokenBucket)
	l.Excess = 10
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	if l.Count != 110 || l.Burst != 110 || l.Name != "100/minute" {
		t.Errorf("got %q: %d, burst %d", l.Name, l.Count, l.Burst)
	}
}

func TestLeaseTTL(t *testing.T) {
	f := func(want time.Duration, inflow int64, change func(*weir.Limit)) {
		t.Helper()
		l := weir.PerMinute(600, algorithm.TokenBucket)
		change(l)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if got := l.LeaseTTL(); got != want || l.Inflow() != inflow {
			t.Errorf("ttl %s with an inflow of %d, want %s and %d", got, l.Inflow(), want, inflow)
		}
	}
	f(time.Second, 10, func(*weir.Limit) {})
	f(50*time.Millisecond, 30, func(l *weir.Limit) { l.Period = time.Second })
	f(100*time.Millisecond, 1, func(l *weir.Limit) { l.Burst = 10 })
	// Not so long that the burst that is left would be nothing.
	f(500*time.Millisecond, 5, func(l *weir.Limit) { l.Burst, l.Consistency.LeaseTTL = 10, time.Minute })
	f(1234567*time.Microsecond, 13, func(l *weir.Limit) { l.Consistency.LeaseTTL = 1234567 * time.Microsecond })
	// A hundredth of an hour is more than a second, and a minute is the most. Places
	// are another matter.
	f(36*time.Second, 6, func(l *weir.Limit) { l.Period = time.Hour })
	f(time.Second, 1, func(l *weir.Limit) { l.Period, l.Burst = time.Hour, 10 })
	f(time.Minute, 1, func(l *weir.Limit) { l.Period = 24 * time.Hour })
	f(time.Second, 1, func(l *weir.Limit) { l.Period, l.Algorithm = time.Hour, algorithm.Concurrency })
	f(time.Minute, 1_709_016_253, func(l *weir.Limit) { l.Count, l.Period = weir.MaxCost, weir.MaxPeriod })
}

// Every way to decide says what it promises.
// TestGuaranteeOfForcedCosts: a limit whose cost the response states has no bound, and says so.
func TestGuaranteeOfForcedCosts(t *testing.T) {
	for _, a := range []*weir.Adjustment{{Per: 1000}, {Header: "X-Tokens"}} {
		l := &weir.Limit{Name: "tokens", Algorithm: algorithm.SlidingWindow, Count: 40_000, Period: time.Minute, Adjustment: a}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if g := l.Guarantee(); g.Exact || g.AtMost != weir.Unbounded || g.OverAdmit != weir.Unbounded {
			t.Errorf("%+v: %+v", a, g)
		}
	}
}

func TestGuaranteeOfEachSource(t *testing.T) {
	l := weir.PerMinute(600, algorithm.TokenBucket)
	l.Burst = 900
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	f := func(s weir.Source, word, want string) {
		t.Helper()
		d := weir.Decision{Limit: l.From(s)}
		g := d.Guarantee()
		if g.Source != s || s.String() != word || g.String() != want || d.Degraded() != g.Degraded {
			t.Errorf("%s: %q, degraded: %v, want %s: %q", g.Source, g, d.Degraded(), word, want)
		}
	}
	f(weir.FromStore, "store", "at most 1500 in any period")
	f(weir.FromCache, "cache", "at most 1500 in any period")
	f(weir.FromLease, "lease", "may refuse early, at most 1500 in any period")
	f(weir.FromLooseLease, "loose_lease", "may admit 10 too many, at most 1510 in any period")
	f(weir.FromCounts, "counts", "may admit 30 too many, at most 1530 in any period")
	f(weir.FromLocal, "local", "at most 1500 in any period, on each node")
	f(weir.FromSketch, "sketch", "may refuse early, at most 1500 in any period, degraded")
	f(weir.FromShare, "share", "may admit 900 too many, at most 3000 in any period, degraded")
	f(weir.FromLastKnown, "last_known", "may admit any number too many, degraded")
	f(weir.FailedOpen, "failed_open", "may admit any number too many, degraded")
	f(weir.FromSuccessor, "successor", "may admit 900 too many, at most 3000 in any period, degraded")
	f(weir.FailedClosed, "failed_closed", "may refuse early, at most 1500 in any period, degraded")
}

func TestLimitInWords(t *testing.T) {
	for want, every := range map[string]time.Duration{
		"7/second": time.Second, "7/minute": time.Minute, "7/hour": time.Hour, "7/day": 24 * time.Hour,
		"7/10s": 10 * time.Second, "7/10m": 10 * time.Minute, "7/1m30s": 90 * time.Second, "7/2h": 2 * time.Hour, "7/48h": 48 * time.Hour,
	} {
		l := &weir.Limit{Count: 7, Period: every, Algorithm: algorithm.FixedWindow}
		if err := l.Compile(); err != nil || l.Name != want {
			t.Errorf("%s is named %q, %v; want %s", every, l.Name, err, want)
		}
	}
}

// What is derived of a limit counts where that does, whether or not it has a name, unless
// its scope is another; limits without a name that ask alike by two algorithms do not.
func TestVersionsCountInOnePlace(t *testing.T) {
	for _, name := range []string{"", "x"} {
		var last *weir.Limit
		for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter} {
			l := &weir.Limit{Name: name, Algorithm: a, Count: 100, Period: time.Minute}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			more := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: a, Count: 1000, Period: time.Minute, Derived: l}
			err1 := more.Compile()
			most := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: a, Count: 1000, Period: time.Hour, Derived: more}
			err2 := most.Compile()
			other := &weir.Limit{Name: l.Name, Scope: l.Scope + "\x1fother", Algorithm: a, Count: 100, Period: time.Minute, Derived: l}
			err3 := other.Compile()
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			id := weir.CounterID(l)
			if id == 0 || weir.CounterID(more) != id || weir.CounterID(most) != id || weir.CounterID(other) == id {
				t.Errorf("%q, %s: %x, varied %x and %x, in another scope %x", name, a.Name(), id, weir.CounterID(more), weir.CounterID(most), weir.CounterID(other))
			}
			if last != nil && (weir.CounterID(last) == id) != (name != "") {
				t.Errorf("%q: %s and %s: %x and %x", name, last.Algorithm.Name(), a.Name(), weir.CounterID(last), id)
			}
			last = l
		}
	}
}
