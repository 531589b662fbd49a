package redis

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilySlidingWindowTwin asks the script and the algorithm the same of few keys
// that are always in use, where a sub-window more or less is seen.
func TestFamilySlidingWindowTwin(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	var now atomic.Int64
	now.Store(1_773_500_966_535_897)
	s := openTold(t, "redis://"+servertest.Redis(t).Addr, now.Load)
	decisions := 4000
	if os.Getenv("WEIR_SOAK") == "1" {
		decisions = 400_000
	}
	groups := [][]int64{{1}, {2, 20, 7}, {100, 21, 64, 65, 1000, 16_384}, {1 << 53, 16_385, 1 << 40, 7 << 50}}
	for i, counts := range groups {
		for _, grain := range []int{0, 2} {
			l := make([]*weir.Limit, len(counts))
			for j, n := range counts {
				l[j] = &weir.Limit{Scope: fmt.Sprint("twin", i, grain), Algorithm: algorithm.SlidingWindow, Count: n, Period: time.Minute}
				l[j].Grain = grain
				if err := l[j].Compile(); err != nil {
					t.Fatal(err)
				}
			}
			cells := make([]int64, l[0].Cells)
			at := 0
			var receipts [8]int64
			for n := range decisions / 8 {
				if r.IntN(40) == 0 {
					at = r.IntN(len(l))
				}
				o := weir.Op{Key: "k", Limit: l[at], Cost: 1 + r.Int64N(max(l[at].Count/8, 1))}
				switch r.IntN(10) {
				case 0:
					o.Verb = weir.Peek
				case 1:
					o.Verb, o.ID = weir.Refund, receipts[r.IntN(len(receipts))]
				case 2:
					o.Verb = weir.Refund
				case 3:
					o.Verb = weir.Force
				}
				before := fmt.Sprintf("%x", cells)
				ops := []weir.Op{o}
				if err := s.Take(t.Context(), ops); err != nil {
					t.Fatal(err)
				}
				want := o.Limit.Algorithm.Step(cells, o.Limit, weir.Ask{Now: now.Load(), Cost: o.Cost, ID: o.ID, Verb: o.Verb})
				if ops[0].Decision != want {
					t.Fatalf("%d of %d, grain %d, decision %d at %d: %s %d (%d)\nanswered %+v\n    want %+v\nrow %s", i, o.Limit.Count, grain, n,
						now.Load(), o.Verb, o.Cost, o.ID, ops[0].Decision, want, before)
				}
				if ops[0].Charged {
					receipts[r.IntN(len(receipts))] = ops[0].Receipt()
				}
				switch r.IntN(8) {
				case 0:
					now.Add(r.Int64N(8e6))
				case 1:
					now.Add(-r.Int64N(2e6))
				case 2, 3, 4:
					now.Add(r.Int64N(2e6))
				}
				if want.RetryAfter > 0 && r.IntN(3) == 0 {
					now.Add(micros.Of(want.RetryAfter) - r.Int64N(2))
				}
			}
		}
	}
}
