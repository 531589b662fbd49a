package sharedtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/memory"
)

// Regions that are offered six times the limit together keep to the limit and what
// it may be overshot by.
func testRegionsBound(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, regions := range []int{2, 5} {
			virtual(t, fmt.Sprintf("%s, %d regions", a.Name(), regions), func(t *testing.T) {
				w := newWorld(t, newNode, regions, 2, Options{})
				w.far(30 * time.Millisecond)
				l := compiled(t, &weir.Limit{Algorithm: a, Count: 2000, Period: 10 * time.Second}, eventual(200))
				load := newLoad(w.fleet, l)
				load.allow(200)
				const d = 10*time.Second - time.Millisecond
				load.run(1200, d, false)
				total, most := load.admitted.Load(), l.Count
				if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
					most = 2 * l.Count
				}
				own, between := w.calls()
				t.Logf("%d of %d and 200, %d offered, %d calls, %d between regions", total, most, load.offered.Load(), own, between)
				if load.over.Load() != 0 || total > most+200 || total < most*90/100 || load.degraded.Load() != 0 {
					t.Errorf("%d admitted, at most %d and 200, %d too many, %d degraded", total, most, load.over.Load(), load.degraded.Load())
				}
				if d := w.take(w.nodes[0], "new", l, 1); d.Guarantee().OverAdmit != 200 || d.Guarantee().Exact {
					t.Errorf("promised %s", d.Guarantee())
				}
			})
		}
	}
}

// A region that cannot report what it admits admits its part of the bound and no
// more, however long: of every algorithm, all regions together exactly the bound.
func testRegionsCutAtStart(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			const regions, over = 4, 90
			aligned(time.Hour)
			w := newWorld(t, newNode, regions, 1, Options{})
			w.cutOff(down)
			l := compiled(t, weir.PerHour(2000, a), eventual(over))
			load := newLoad(w.fleet, l)
			for range 3000 {
				for _, s := range w.nodes {
					load.ask(s)
				}
				time.Sleep(time.Millisecond)
			}
			each := int64(over / (regions - 1))
			if a != algorithm.FixedWindow {
				each = over / 2 / (regions - 1)
			}
			if n := load.admitted.Load(); n != each*regions {
				t.Errorf("%d admitted, want %d in each of %d regions", n, each, regions)
			}
			if st := w.nodes[0].Stats(); !st.Regions[0].BreakerOpen || st.Capped == 0 || st.Lag < 2*time.Second || st.Regions[0].Failures == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Many nodes of a region that report one key do so by turns.
func testRegionTurns(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, newNode, 2, 6, Options{})
		l := compiled(t, weir.PerHour(100_000, algorithm.FixedWindow), eventual(240))
		var wg sync.WaitGroup
		for _, s := range w.regions[0] {
			wg.Go(func() {
				for range 500 {
					w.take(s, "k", l, 1)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if _, between := w.calls(); between > 80 || between < 20 {
			t.Errorf("%d calls between regions in 5 s, by turns of 100 ms", between)
		}
	})
}

// Keys that are no longer used make room in a region's memory: those that come later are
// reported to other regions too.
func testRegionFlood(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, newNode, 2, 1, Options{MaxBytes: 1 << 20})
		l := compiled(t, weir.PerHour(100, algorithm.FixedWindow), eventual(20))
		for i := range 2000 {
			if i%200 == 0 {
				time.Sleep(30 * time.Second)
			}
			w.take(w.nodes[0], fmt.Sprint("key ", i), l, 1)
		}
		time.Sleep(30 * time.Second)
		w.offer("late", l, 200, w.nodes[0])
		time.Sleep(5 * time.Second)
		if n := w.offer("late", l, 200, w.nodes[1]); n > 20 {
			t.Errorf("%d admitted of a key that the other region has used up", n)
		}
	})
}

// What is not leased counts for other regions too: what is kept for priorities, costs
// that were incurred, units that are refunded.
func testRegionVerbs(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, newNode, 2, 1, Options{})
		l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), eventual(50))
		tight := compiled(t, weir.PerHour(10, algorithm.FixedWindow), strict)
		take := func(more ...weir.Op) weir.Decision {
			if err := w.nodes[0].Take(context.Background(), more); err != nil {
				t.Fatal(err)
			}
			return weir.Fold(more)
		}
		there := func(want int64) {
			t.Helper()
			time.Sleep(time.Second)
			if left := (&fleet{T: t, shared: w.stores[1]}).left("k", l); left != want {
				t.Errorf("the other has %d left, want %d", left, want)
			}
		}
		take(weir.Op{Key: "k", Limit: l, Cost: 20, Headroom: 100})
		there(980)
		take(weir.Op{Key: "k", Limit: l, Cost: 30, Role: weir.Always, Verb: weir.Force})
		there(950)
		for range 20 {
			take(weir.Op{Key: "k", Limit: l, Cost: 1, Headroom: 100}, weir.Op{Key: "k", Limit: tight, Cost: 1})
		}
		there(940)
		refunded := []weir.Op{{Key: "k", Limit: l, Cost: 10, Headroom: 100}}
		if err := w.nodes[0].Take(context.Background(), refunded); err != nil {
			t.Fatal(err)
		}
		there(930)
		take(refunded[0].Undo(10))
		there(930) // what was reported is not taken back, but counts for the next
		take(weir.Op{Key: "k", Limit: l, Cost: 10, Headroom: 100})
		there(930)

		w.cutOff(down)
		passed := int64(0)
		for range 500 {
			d := take(weir.Op{Key: "k", Limit: l, Cost: 1, Headroom: 100})
			if d.Allowed() {
				passed++
			} else if d.RetryAfter != 100*time.Millisecond || d.Guarantee().OverAdmit != 50 {
				t.Fatalf("%+v", d)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed != 50 {
			t.Errorf("%d passed that nobody was told of, want 50", passed)
		}
	})
}

// A reset reaches every region.
func testRegionsForget(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		a, b := memory.New(memory.Options{MaxBytes: 1 << 20}), memory.New(memory.Options{MaxBytes: 1 << 20})
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		s, err := newNode(a, Options{Local: local, Region: "a", Peers: []Peer{{Name: "b", Store: b}}})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{T: t}
		l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), eventual(50))
		for range 30 {
			f.take(s, "k", l, 1)
		}
		time.Sleep(3 * time.Second)
		if left := f.take(b, "k", l, 0).Remaining; left > 970 {
			t.Errorf("the other has %d left", left)
		}
		if found, err := s.Forget(context.Background(), "k", l); err != nil || !found {
			t.Errorf("%v, %v", found, err)
		}
		for i, m := range []weir.Store{a, b} {
			if left := f.take(m, "k", l, 0).Remaining; left != 1000 {
				t.Errorf("store %d has %d left", i, left)
			}
		}
		for _, c := range []weir.Store{s, a, b, local} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A cost above what a region may admit untold never passes, and says so.
func testRegionCosts(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			w := newWorld(t, newNode, 3, 1, Options{})
			l := compiled(t, weir.PerHour(1000, a), eventual(100))
			most := int64(50)
			if a != algorithm.FixedWindow {
				most = 25
			}
			for _, two := range []bool{false, true} {
				for cost := most - 1; cost <= most+2; cost++ {
					ops := []weir.Op{{Key: fmt.Sprint("k", two, cost), Limit: l, Cost: cost}}
					if two {
						ops = append(ops, weir.Op{Key: fmt.Sprint("j", cost), Limit: l, Cost: cost})
					}
					if err := w.nodes[0].Take(context.Background(), ops); err != nil {
						t.Fatal(err)
					}
					if d := ops[0].Decision; d.Allowed() != (cost <= most) || !d.Allowed() && d.RetryAfter != weir.Never {
						t.Errorf("a cost of %d of %d, several %v: %s", cost, most, two, d)
					}
				}
			}
			// One that is refused since others were not reported passes later.
			w.cutOff(down)
			for range 2 {
				w.take(w.nodes[0], "l", l, most/2+1)
			}
			if d := w.take(w.nodes[0], "l", l, most/2+1); d.Allowed() || d.RetryAfter == weir.Never {
				t.Errorf("others do not know yet: %s", d)
			}
		})
	}
}

// Names of regions are checked.
func testRegionOptions(t *testing.T, newNode New) {
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer local.Close()
	for want, opt := range map[string]Options{
		"without other regions": {Region: "a"},
		"this one is not":       {Peers: []Peer{{Name: "b", Store: local}}},
		"named twice":           {Region: "a", Peers: []Peer{{Name: "a", Store: local}}},
		"without a name":        {Region: "a", Peers: []Peer{{Store: local}}},
	} {
		opt.Local = local
		s, err := newNode(local, opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			s.Close()
		}
	}
}
