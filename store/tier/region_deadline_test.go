package tier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// Callers with deadlines of every kind in two regions: of limits that both count
// together no more passes than the bound, nothing is decided by policy, and neither the
// region's own store nor the other region counts as away.
func TestFamilyCallersDeadlinesInRegions(t *testing.T) {
	for seed := range drawn(t, 2, 100) {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprint(seed, prompt), func(t *testing.T) {
				aligned(time.Hour)
				w := newWorld(t, 2, 2, tier.Options{Prompt: prompt})
				w.far(30 * time.Millisecond)
				for _, s := range w.stores {
					s.delay.Store(int64(time.Millisecond))
				}
				var ls []*weir.Limit
				for i, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.FixedWindow} {
					l := &weir.Limit{Name: fmt.Sprint("limit ", i), Algorithm: a, Count: 400, Period: time.Hour}
					ls = append(ls, compiled(t, l, func(l *weir.Limit) {
						eventual(40)(l)
						l.Consistency.OnStoreError = weir.OnErrorAllow
					}))
				}
				passed := make([]atomic.Int64, len(ls))
				var left atomic.Int64
				var wg sync.WaitGroup
				for c := range 16 {
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, uint64(c)))
						for range 600 {
							ctx, cancel := impatient(rnd, 20*time.Millisecond, time.Millisecond)
							var ops []weir.Op
							var of []int
							for _, i := range rnd.Perm(len(ls))[:1+rnd.IntN(2)] {
								ops, of = append(ops, weir.Op{Key: "k", Limit: ls[i], Cost: 1}), append(of, i)
							}
							err := w.nodes[rnd.IntN(len(w.nodes))].Take(ctx, ops)
							cancel()
							switch {
							case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
								left.Add(1)
							case err != nil:
								t.Error(err)
							}
							if err != nil || !weir.Fold(ops).Allowed() {
								time.Sleep(time.Millisecond)
								continue
							}
							for j := range ops {
								passed[of[j]].Add(1)
								if ops[j].Decision.Guarantee().Degraded {
									t.Errorf("decided by policy: %+v", ops[j].Decision)
								}
							}
						}
					})
				}
				wg.Wait()
				for i, l := range ls {
					n := passed[i].Load()
					t.Logf("%s: %d passed", l.Name, n)
					if n > l.Count+l.Overshoot() {
						t.Errorf("%s: %d passed of %d and %d", l.Name, n, l.Count, l.Overshoot())
					}
				}
				for i, s := range w.nodes {
					if st := s.Stats(); st.Away || st.Failed != 0 || st.Degraded != 0 || st.Regions[0].Away || st.Regions[0].Unanswered != 0 {
						t.Errorf("node %d: %+v", i, st)
					}
				}
				if left.Load() == 0 {
					t.Error("no caller left: nothing was tested")
				}
			})
		}
	}
}
