package tier_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// A call that is sent in one window and charged in the next counts for the other
// regions in the window that charged it: the bound holds there, and they hear of it.
func TestFamilyRegionsCountWhereWindowsTurn(t *testing.T) {
	for _, verb := range []weir.Verb{weir.Spend, weir.Force} {
		for _, turns := range []bool{false, true} {
			virtual(t, fmt.Sprint("verb ", verb, ", turns ", turns), func(t *testing.T) {
				const count, over, early = 100, 50, 48
				aligned(time.Minute)
				w := newWorld(t, 2, 1, tier.Options{})
				l := compiled(t, weir.PerMinute(count, algorithm.FixedWindow), eventual(over))
				role := weir.Enforce
				if verb == weir.Force {
					role = weir.Always
				}
				// The store's clock is known before the window ends.
				w.take(w.nodes[0], "other", l, 1)
				w.take(w.nodes[1], "other", l, 1)
				before := 5 * time.Millisecond
				if !turns {
					before = -5 * time.Millisecond
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - before)))
				w.stores[0].delay.Store(int64(15 * time.Millisecond))
				var wg sync.WaitGroup
				for range early / 8 {
					wg.Go(func() {
						ops := []weir.Op{{Key: "k", Limit: l, Cost: 8, Role: role, Verb: verb}}
						if verb == weir.Spend {
							ops[0].Reserve = 1
						}
						if err := w.nodes[0].Take(context.Background(), ops); err != nil {
							t.Error(err)
						} else if !ops[0].Charged {
							t.Errorf("not charged: %s", ops[0].Decision)
						}
					})
				}
				wg.Wait()
				w.stores[0].delay.Store(0)
				total := int64(early)
				spend := func(s *tier.Store) {
					for range 300 {
						if w.take(s, "k", l, 1).Allowed() {
							total++
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				// The second cannot be told, and tells the first all the same.
				w.paths[0][1].set(down)
				spend(w.nodes[0])
				spend(w.nodes[1])
				w.paths[0][1].set(none)
				time.Sleep(2 * time.Second)
				if left := (&fleet{T: t, shared: w.stores[1]}).left("k", l); left > max(count-total, 0) {
					t.Errorf("the other region has %d left of %d, of which %d are spent", left, count, total)
				}
				if total > count+over {
					t.Errorf("%d admitted in one window, at most %d and %d", total, count, over)
				}
				if total < count {
					t.Errorf("only %d of %d admitted", total, count)
				}
			})
		}
	}
}
