package shared

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// The table of docs/consistency.md: which algorithm can be counted how. What a limit asks
// for and cannot have is refused by Compile, or decided strictly.
func TestModeOf(t *testing.T) {
	const strict, leased, eventual, local = params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal
	const def = params.ConsistencyDefault
	lends := []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows}
	others := []weir.Algorithm{algorithm.LeakyQueue, algorithm.SlidingLog, algorithm.Lockout}
	plain := func(*weir.Limit) {}
	for _, row := range []struct {
		algorithms       []weir.Algorithm
		asks, gets, node params.ConsistencyMode
		change           func(l *weir.Limit)
	}{
		{lends, def, leased, def, plain}, {lends, def, strict, strict, plain}, {lends, def, eventual, eventual, plain}, {lends, def, local, local, plain},
		{lends, strict, strict, def, plain}, {lends, leased, leased, def, plain}, {lends, leased, leased, strict, plain}, {lends, eventual, eventual, def, plain}, {lends, local, local, def, plain},
		{others, def, strict, def, plain}, {others, def, strict, eventual, plain}, {others, strict, strict, def, plain}, {others, local, local, def, plain},
		{[]weir.Algorithm{algorithm.Concurrency}, def, strict, def, plain}, {[]weir.Algorithm{algorithm.Concurrency}, leased, leased, def, plain},
		{[]weir.Algorithm{algorithm.Concurrency}, strict, strict, def, plain}, {[]weir.Algorithm{algorithm.Concurrency}, local, local, def, plain},
		{[]weir.Algorithm{algorithm.Approximate}, def, local, def, plain}, {[]weir.Algorithm{algorithm.Approximate}, local, local, def, plain},
		// What needs the store at every request.
		{lends, leased, strict, def, func(l *weir.Limit) { l.Excess = 2 }},
		{lends, leased, strict, def, func(l *weir.Limit) { l.Penalize = true }},
		{lends, eventual, strict, def, func(l *weir.Limit) { l.Penalize = true }},
		{lends, leased, strict, def, func(l *weir.Limit) { l.Mode.Headroom = []int64{1} }},
		// Fewer than eight units.
		{lends, leased, strict, def, func(l *weir.Limit) { l.Count = 7 }}, {lends, leased, leased, def, func(l *weir.Limit) { l.Count = 8 }},
		{lends, eventual, strict, def, func(l *weir.Limit) { l.Count = 7 }},
		{[]weir.Algorithm{algorithm.Concurrency}, leased, strict, def, func(l *weir.Limit) { l.Count = 7 }},
	} {
		for _, a := range row.algorithms {
			l := &weir.Limit{Name: "l", Algorithm: a, Count: 1000, Period: time.Minute, Consistency: params.Consistency{Mode: row.asks}}
			row.change(l)
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			if got := modeOf(l, row.node); got != row.gets {
				t.Errorf("%s of %d asks for %s, on a node of %s: %s, want %s", a.Name(), l.Count, row.asks, row.node, got, row.gets)
			}
		}
	}
}

// Limits that are made on the fly, one after the other, do not pile up.
func TestPoliciesAreBounded(t *testing.T) {
	local, store := memory.New(memory.Options{MaxBytes: memory.MinBytes}), memory.New(memory.Options{MaxBytes: memory.MinBytes})
	defer local.Close()
	defer store.Close()
	s, err := New(store, Options{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range maxPolicies + 1000 {
		l := &weir.Limit{Name: "l", Algorithm: algorithm.Throttle, Count: int64(i + 1), Period: time.Second,
			Consistency: params.Consistency{Mode: params.ConsistencyStrict}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.policies.forLimit(l); err != nil {
			t.Fatal(err)
		}
	}
	kept := int64(0)
	s.policies.all.Range(func(any, any) bool { kept++; return true })
	if kept > maxPolicies || kept != s.policies.count.Load() {
		t.Errorf("%d policies are kept, %d counted", kept, s.policies.count.Load())
	}
}

// A policy that was made before all were forgotten is not used afterwards, also if that was
// done while it was made; nor is one that was forgotten as nobody used it.
func TestForgottenPolicyIsMadeAnew(t *testing.T) {
	var made int
	var during func()
	ps := policies{make: func(l *weir.Limit) (*policy, error) {
		if made++; during != nil {
			during()
		}
		return &policy{limit: l}, nil
	}}
	l := weir.PerSecond(10, algorithm.FixedWindow)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	of := func(what string, want int) {
		t.Helper()
		p, err := ps.forLimit(l)
		if err != nil || p.limit != l || made != want {
			t.Errorf("%s: %d were made, want %d, %v", what, made, want, err)
		}
	}
	of("first", 1)
	of("again", 1)
	ps.clear()
	of("all were forgotten", 2)
	of("again", 2)
	ps.clear()
	during = ps.clear
	of("forgotten while it is made", 3)
	during = nil
	of("after that", 4)
	of("again", 4)
	ps.second.Store(policyLife + 1)
	ps.sweepUnused()
	of("nobody used it", 5)
	of("again", 5)
	if n := ps.count.Load(); n != 1 {
		t.Errorf("%d are counted", n)
	}
}
