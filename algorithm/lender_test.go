package algorithm_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// Units may be spent to the end of the window or sub-window that they were
// charged to, and not a microsecond longer.
func TestSpendByEndsWithTheWindow(t *testing.T) {
	f := func(l *weir.Limit, length time.Duration) {
		t.Helper()
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		us := length.Microseconds()
		for _, now := range []int64{1_700_000_000_000_000, 1_700_000_012_345_678, 1_700_000_059_999_999} {
			cells := make([]int64, l.Cells)
			for _, at := range []int64{now, now + us/3, now + 2*us} {
				d := l.Algorithm.Step(cells, l, weir.Ask{Now: at, Cost: 1})
				o := weir.Op{Limit: l, Cost: 1, Answer: weir.Answer{Decision: d, Now: at}}
				if got, want := l.Algorithm.(weir.Lender).SpendBy(l, o.Receipt()), at-at%us+us; got != want {
					t.Errorf("%s: units of %d may be spent until %d, want %d", l.Algorithm.Name(), at, got, want)
				}
			}
		}
	}
	f(weir.PerMinute(100, algorithm.FixedWindow), time.Minute)
	f(weir.PerMinute(100, algorithm.SlidingCounter), time.Minute)
	f(weir.PerMinute(1<<40, algorithm.SlidingCounter), time.Minute)
	f(weir.PerMinute(100, algorithm.SlidingSubwindows), time.Second)
	lenient := weir.PerMinute(100, algorithm.SlidingSubwindows)
	lenient.Form, lenient.Precision = params.Lenient, 12
	f(lenient, 5*time.Second)

	bucket := weir.PerMinute(100, algorithm.TokenBucket)
	if err := bucket.Compile(); err != nil {
		t.Fatal(err)
	}
	if got := algorithm.TokenBucket.(weir.Lender).SpendBy(bucket, 1); got != math.MaxInt64 {
		t.Errorf("units of a bucket are bound to %d", got)
	}
}
