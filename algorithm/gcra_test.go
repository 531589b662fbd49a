package algorithm_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

func TestTokenBucketSpendsBurstThenWaits(t *testing.T) {
	l := &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Period: time.Second, Burst: 5}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	cells := make([]int64, l.Cells)
	now := int64(1_700_000_000_000_000)
	take := func(at time.Duration, cost int64, v weir.Verb) weir.Decision {
		return l.Algorithm.Step(cells, l, weir.Ask{Now: now + at.Microseconds(), Cost: cost, Verb: v})
	}
	want := func(d weir.Decision, remaining int64, retry time.Duration) {
		t.Helper()
		if d.Remaining != remaining || d.RetryAfter != retry {
			t.Errorf("remaining %d retry %v, want %d %v", d.Remaining, d.RetryAfter, remaining, retry)
		}
	}
	want(take(0, 5, weir.Spend), 0, 0)
	want(take(0, 1, weir.Spend), 0, 100*time.Millisecond)
	want(take(100*time.Millisecond, 1, weir.Spend), 0, 0)
	want(take(100*time.Millisecond, 6, weir.Spend), 0, weir.Never)
	want(take(400*time.Millisecond, 4, weir.Spend), 3, 100*time.Millisecond)
	want(take(400*time.Millisecond, 2, weir.Refund), 5, 0)
	want(take(400*time.Millisecond, 9, weir.Force), 0, weir.Never)
	want(take(400*time.Millisecond, 1, weir.Peek), 0, 500*time.Millisecond) // four owed
}

func TestLeakyQueueDelaysInTurn(t *testing.T) {
	l := &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 10, Period: time.Second, Burst: 3}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	cells := make([]int64, l.Cells)
	now := int64(1_700_000_000_000_000)
	step := func(a weir.Ask) weir.Decision { a.Now, a.Cost = now, 1; return l.Algorithm.Step(cells, l, a) }
	var last weir.Decision
	for i := range 4 {
		last = step(weir.Ask{})
		if got, want := last.Delay(1), time.Duration(i)*100*time.Millisecond; !last.Allowed() || got != want {
			t.Fatalf("request %d: %+v delay %v, want %v", i, last, got, want)
		}
	}
	if d := step(weir.Ask{}); d.RetryAfter != 100*time.Millisecond {
		t.Fatalf("fifth request: %+v", d)
	}
	receipt := now + micros.Of(last.ResetAfter)
	step(weir.Ask{Verb: weir.Refund, ID: receipt - 100_000}) // not the last in line
	if d := step(weir.Ask{}); d.Allowed() {
		t.Fatal("a place in the middle of the line was given back")
	}
	step(weir.Ask{Verb: weir.Refund, ID: receipt})
	if d := step(weir.Ask{}); d.Delay(1) != 300*time.Millisecond || !d.Allowed() {
		t.Fatalf("after the last one left: %+v", d)
	}
}

// Whatever the clock does, a key is not locked out for longer than its burst
// takes to come back, twice.
func TestBucketRecoversAfterTheClockWentBack(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyQueue} {
		l := &weir.Limit{Algorithm: a, Count: 10, Period: time.Second, Burst: 10}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		cells := make([]int64, l.Cells)
		now := int64(1_700_000_000_000_000)
		for l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1}).Allowed() {
		}
		now -= time.Hour.Microseconds()
		d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1})
		if d.Allowed() || d.RetryAfter > 2500*time.Millisecond {
			t.Fatalf("%s: after the clock went back: %+v", a.Name(), d)
		}
		now += d.RetryAfter.Microseconds()
		if d = l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1}); !d.Allowed() {
			t.Errorf("%s: after the wait that was told: %+v", a.Name(), d)
		}
	}
}
