package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
)

// Regions whose clocks differ count by windows of their own, each within the bound.
func testRegionClocks(t *testing.T, newNode New) {
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second} {
		virtual(t, ahead.String(), func(t *testing.T) {
			aligned(time.Minute)
			skewed := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().Add(ahead).UnixMicro() }})
			t.Cleanup(func() { skewed.Close() })
			w := newWorld(t, newNode, 2, 1, Options{})
			w.stores[1].Store = skewed
			l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), eventual(50))
			// What each region admits in each window, by its own clock.
			admitted := map[int64]int64{}
			for start := time.Now(); time.Since(start) < 150*time.Second; time.Sleep(20 * time.Millisecond) {
				for i, s := range w.nodes {
					at := time.Now()
					if i == 1 {
						at = at.Add(ahead)
					}
					if w.take(s, "k", l, 1).Allowed() {
						admitted[at.Unix()/60]++
					}
				}
			}
			for window, n := range admitted {
				if n > 1050 {
					t.Errorf("window %d: %d admitted of 1000 and 50", window, n)
				}
				whole := admitted[window-1] > 0 && admitted[window+1] > 0
				if whole && n < 950 {
					t.Errorf("window %d: only %d admitted of 1000", window, n)
				}
			}
			if len(admitted) < 3 {
				t.Errorf("%d windows", len(admitted))
			}
		})
	}
}

// A region whose clock is set back, or forth, admits at most the limit once more in a
// window.
func testRegionClockSteps(t *testing.T, newNode New) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 5))
	for run := range 6 {
		virtual(t, fmt.Sprint(run), func(t *testing.T) {
			aligned(time.Minute)
			var ahead atomic.Int64
			stepping := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() + ahead.Load() }})
			t.Cleanup(func() { stepping.Close() })
			w := newWorld(t, newNode, 2, 1, Options{})
			w.stores[1].Store = stepping
			l := compiled(t, weir.PerMinute(300, algorithm.FixedWindow), eventual(60))
			admitted, steps := map[int64]int64{}, 0
			for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
				if rng.IntN(200) == 0 {
					ahead.Store(rng.Int64N(10_000_000) - 5_000_000)
					steps++
				}
				for i, s := range w.nodes {
					at := time.Now()
					if i == 1 {
						at = at.Add(time.Duration(ahead.Load()) * time.Microsecond)
					}
					if w.take(s, "k", l, 1).Allowed() {
						admitted[at.Unix()/60]++
					}
				}
			}
			most := int64(0)
			for window, n := range admitted {
				most = max(most, n)
				if n > 2*300+60 {
					t.Errorf("window %d: %d admitted of 300 and 60, once more 300", window, n)
				}
			}
			t.Logf("%d steps; at most %d in a window", steps, most)
			if steps == 0 || most < 250 {
				t.Errorf("%d steps, at most %d admitted of 300", steps, most)
			}
		})
	}
}

// A call that is sent in one window and charged in the next counts for the other
// regions in the window that charged it: the bound holds there, and they hear of it.
func testRegionTurnOfWindow(t *testing.T, newNode New) {
	for _, verb := range []weir.Verb{weir.Spend, weir.Force} {
		for _, turns := range []bool{false, true} {
			virtual(t, fmt.Sprint("verb ", verb, ", turns ", turns), func(t *testing.T) {
				const count, over, early = 100, 50, 48
				aligned(time.Minute)
				w := newWorld(t, newNode, 2, 1, Options{})
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
							ops[0].Headroom = 1
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
				spend := func(s Node) {
					for range 300 {
						if w.take(s, "k", l, 1).Allowed() {
							total++
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				// The first cannot report to the second, the second can to the first.
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
