package ours

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

func open(t *testing.T, rules weir.Rules) *weir.Limiter {
	t.Helper()
	l, done, err := Open(rules, memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return l
}

// What is measured counts its decisions and allocates nothing.
func TestTakeCountsAndDoesNotAllocate(t *testing.T) {
	limit := weir.PerSecond(1000, algorithm.TokenBucket)
	allow := Allow(open(t, weir.Limits{limit}))
	allow("one") // makes the row
	const runs = 500
	if n := testing.AllocsPerRun(runs, func() { allow("one") }); n != 0 {
		t.Errorf("%.2f allocations in a decision", n)
	}
	// AllocsPerRun runs once more to warm up.
	if err := CheckCounters(limit, runs+2); err != nil {
		t.Error(err)
	}
	if err := CheckCounters(limit, runs); err == nil {
		t.Error("a wrong count was not noticed")
	}
}

func TestKindsAreWhatTheySay(t *testing.T) {
	cells := map[string]int{
		"weir, 1 word": 1, "weir, 1 word (sliding counter)": 1, "weir, 2 words": 2, "weir, 3 words (sliding window)": 3,
		// 61 counters of two bytes, and the stamp.
		"weir, 60 sub-windows": 17,
	}
	for _, k := range Kinds {
		limit := k.Limit()
		d, err := open(t, weir.Limits{limit}).Take(t.Context(), "one", 1)
		if err != nil {
			t.Fatal(err)
		}
		if limit.Cells != cells[k.Name] {
			t.Errorf("%s: %d words of state, want %d", k.Name, limit.Cells, cells[k.Name])
		}
		if d.ResetAfter < 15*time.Minute {
			t.Errorf("%s: a key is forgotten after %s, within a measurement", k.Name, d.ResetAfter)
		}
	}
}

func TestHoldNoticesEstimates(t *testing.T) {
	limit := weir.PerHour(100, algorithm.TokenBucket)
	l := open(t, weir.Limits{limit})
	if !Exact(l, limit)("one") {
		t.Error("an exact decision was taken for an estimate")
	}
	if Exact(l, limit.From(weir.FromSketch))("one") {
		t.Error("an estimate was taken for exact")
	}
}

func TestCasesMeetTheirRules(t *testing.T) {
	for _, c := range Cases {
		want := "token_bucket"
		if strings.HasSuffix(c.Name, "sliding_window") {
			want = "sliding_window"
		}
		set, err := c.Set(time.Millisecond, 1_000_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for from, rules := range map[string]weir.Rules{"file": set, "limits": c.Limits(time.Millisecond, 1_000_000_000)} {
			l := open(t, rules)
			if err := c.Exhaust(l, "ann"); err != nil {
				t.Fatal(err)
			}
			ask := c.Ask(l)
			for i := range 100 {
				if !ask("ann") {
					t.Fatalf("%s from %s: answer %d is not as expected", c.Name, from, i+1)
				}
			}
			r := &weir.Request{Domain: domain, Descriptors: []weir.Descriptor{{
				Entries: []weir.Entry{{Key: "tenant", Value: "acme"}, {Key: "user", Value: "ann"}},
			}}}
			d, err := l.Decide(t.Context(), r)
			if err != nil || len(r.Ops()) != len(c.limits) || d.Allowed() == c.Refuses {
				t.Errorf("%s from %s: met %d limits, want %d; %+v, %v", c.Name, from, len(r.Ops()), len(c.limits), d, err)
			}
			for _, o := range r.Ops() {
				if o.Limit.Algorithm.Name() != want || o.Charged == c.Refuses {
					t.Errorf("%s from %s: %s, charged %v", c.Name, from, o.Limit.Algorithm.Name(), o.Charged)
				}
			}
		}
	}
}

func TestObservedCasesAnswer(t *testing.T) {
	for _, c := range ObservedCases {
		for _, observed := range []bool{false, true} {
			ask, done, err := c.Open(observed)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 * c.keys {
				if !ask() {
					t.Fatalf("%s, observed %v: answer %d is not as expected", c.Name, observed, i+1)
				}
			}
			if err := done(); err != nil {
				t.Error(err)
			}
		}
	}
}
