package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// Offered six times the limit, a fleet that counts on its own keeps to the limit
// and what it may be overshot by, with few calls.
func testEventualBound(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, nodes := range fleets() {
			virtual(t, fmt.Sprintf("%s, %d nodes", a.Name(), nodes), func(t *testing.T) {
				f := newFleet(t, newNode, nodes, Options{})
				f.shared.delay.Store(int64(time.Millisecond))
				l := compiled(t, &weir.Limit{Algorithm: a, Count: 2000, Period: 10 * time.Second}, eventual(100))
				w := newLoad(f, l)
				w.allow(100)
				const d = 10*time.Second - time.Millisecond
				w.run(1200, d, false)
				total := w.admitted.Load()
				most := l.Count
				if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
					most = 2 * l.Count
				}
				t.Logf("%d of %d and 100: %s", total, most, w)
				if w.over.Load() != 0 || total > most+100 || total < most*95/100 || w.degraded.Load() != 0 {
					t.Errorf("%d admitted, at most %d and 100, %d degraded: %s", total, most, w.degraded.Load(), w)
				}
				if g := l.From(weir.FromCounts).Guarantee(); g.OverAdmit != 100 || g.Exact {
					t.Errorf("promised %s", g)
				}
				if saved := w.offered.Load() / w.shared.calls.Load(); saved < 5 {
					t.Errorf("%d requests to a call: %s", saved, w)
				}
			})
		}
	}
}

// The bound holds when every node bursts at once, whatever the store does
// meanwhile: slow, refusing calls, losing answers, down for a while.
func testEventualFaults(t *testing.T, newNode New) {
	for name, x := range map[string]fault{"slow": none, "tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for seed := range drawn(t, 1, 20) {
			virtual(t, fmt.Sprint(name, " ", seed), func(t *testing.T) {
				f := newFleet(t, newNode, 8, Options{NodeTTL: time.Minute})
				if name == "slow" {
					f.shared.delay.Store(int64(15 * time.Millisecond))
				}
				l := compiled(t, weir.PerMinute(2000, algorithm.FixedWindow), func(l *weir.Limit) {
					eventual(100)(l)
					l.Consistency.OnStoreError = params.OnErrorDeny
				})
				w := newLoad(f, l)
				w.allow(100)
				r := rand.New(rand.NewPCG(seed, 1))
				stop := time.Now().Add(50 * time.Second)
				f.Cleanup(func() { f.shared.set(none) })
				go func() {
					for time.Now().Before(stop) {
						f.shared.set(x)
						time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
						f.shared.set(none)
						time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
					}
				}()
				w.run(400, 55*time.Second, true)
				if n := w.admitted.Load(); w.over.Load() != 0 || n > 2100 || n < 1500 {
					t.Errorf("%d admitted of 2000 and 100: %s", n, w)
				}
				t.Log(w)
			})
		}
	}
}

// All nodes learn that a few units are left and then cannot ask: each admits its
// share and no more.
func testEventualCap(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 8, Options{})
			l := compiled(t, weir.PerHour(2000, a), func(l *weir.Limit) {
				eventual(160)(l)
				l.Consistency.OnStoreError = params.OnErrorDeny
			})
			w := newLoad(f, l)
			w.allow(160)
			for range 240 {
				for _, s := range f.nodes {
					w.ask(s)
				}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(500 * time.Millisecond)
			f.shared.set(down)
			for range 500 {
				for _, s := range f.nodes {
					w.ask(s)
				}
			}
			n := w.admitted.Load()
			share := int64(160)
			if a != algorithm.FixedWindow {
				share = 80 // the other half is for the turn of a window
			}
			if w.over.Load() != 0 || n > 2000+share || n < 1920+share-8 {
				t.Errorf("%d admitted of 2000 and %d: %s", n, share, w)
			}
			// When all is pushed, one node has seen by how much.
			f.shared.set(none)
			time.Sleep(2 * time.Second)
			seen := int64(0)
			for _, s := range f.nodes {
				seen = max(seen, s.Stats().Overshot)
			}
			if seen < n-2000-1 || seen > n-2000 {
				t.Errorf("%d too many were seen, %d were admitted", seen, n-2000)
			}
		})
	}
}

// A node that takes itself to be the only one gets the whole overshoot, and then
// the others get none: they decide strictly.
func testSlackShares(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 0, Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), func(l *weir.Limit) {
			eventual(80)(l)
			l.Consistency.OnStoreError = params.OnErrorDeny
		})
		w := newLoad(f, l)
		for range 8 {
			f.nodes = append(f.nodes, f.node(Options{}))
			for range 10 {
				for _, s := range f.nodes {
					w.ask(s)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		for w.admitted.Load() < 900 {
			for _, s := range f.nodes {
				w.ask(s)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		f.shared.set(down)
		for range 200 {
			for _, s := range f.nodes {
				w.ask(s)
			}
		}
		if n := w.admitted.Load(); n > 1080 || n < 950 {
			t.Errorf("%d admitted of 1000 and 80: %s", n, w)
		}
	})
}

// The bound holds for as long as a fleet is offered more than the limit.
func testEventualRate(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 4, Options{})
			f.shared.delay.Store(int64(3 * time.Millisecond))
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 400, Period: 4 * time.Second}, eventual(40)))
			w.allow(40)
			const d = 40 * time.Second
			w.run(600, d, true)
			share := float64(w.admitted.Load()) / could(w.limit, d)
			t.Logf("%.3f: %s", share, w)
			if w.over.Load() != 0 || share < 0.85 {
				t.Errorf("%.3f of the limit: %s", share, w)
			}
		})
	}
}

// Requests that a node does not know about yet are asked for first, unless the
// limit trusts them.
func testColdKeys(t *testing.T, newNode New) {
	for _, optimistic := range []bool{false, true} {
		virtual(t, fmt.Sprint("optimistic ", optimistic), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), func(l *weir.Limit) {
				eventual(50)(l)
				l.Consistency.Optimistic = optimistic
			})
			f.shared.delay.Store(int64(10 * time.Millisecond))
			start := time.Now()
			f.take(f.nodes[0], "k", l, 1)
			if waited := time.Since(start) > 0; waited == optimistic {
				t.Errorf("waited %v", waited)
			}
			time.Sleep(time.Second)
			if left := f.left("k", l); left != 999 {
				t.Errorf("%d are left of 1000 of which one was spent", left)
			}
		})
	}
}
