package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// A node that was cut off, and is counted again, spends no whole burst while others
// hold what they fetched when they did not count it.
func testNodeChanges(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(12, 5), 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 29))
			f := newFleet(t, newNode, 0, Options{})
			var paths []*faulty
			for range 2 {
				p := &faulty{Store: f.shared.Store, mended: make(chan struct{})}
				paths = append(paths, p)
				g := &fleet{T: t, newNode: newNode, shared: p}
				f.nodes = append(f.nodes, g.node(Options{}))
			}
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10 + r.Int64N(6), Period: 30 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Share, l.Consistency.LeaseTTL, l.Consistency.OnStoreError = 1, 5*time.Second, params.OnErrorDeny
			}))
			for range 20 {
				// Both have known for long that they are two, and the bucket is full.
				time.Sleep(40 * time.Second)
				i := r.IntN(2)
				paths[i].set([]fault{down, stall}[r.IntN(2)])
				// So long that the other forgets it, or not.
				time.Sleep(time.Duration(r.Int64N(int64(16 * time.Second))))
				for range r.IntN(12) {
					w.ask(f.nodes[1-i])
				}
				time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
				paths[i].set(none)
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				for range 30 {
					w.ask(f.nodes[i])
				}
				for range 30 {
					w.ask(f.nodes[1-i])
				}
			}
			time.Sleep(time.Second) // a probe of a store that stood still is left behind, until it ends
			if w.over.Load() != 0 || w.admitted.Load() < 50 {
				t.Errorf("%d too many: %s", w.over.Load(), w)
			}
		})
	}
}

// A node whose process was held up renews its registration late, and does not hear that
// it was not counted meanwhile. Here a node renews in turns that are longer than
// registrations live. Another fetches units while it counts itself alone, and both spend
// as soon as the first is registered again.
func testLateRenewals(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(12, 5), 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 31))
			f := newFleet(t, newNode, 0, Options{})
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10 + r.Int64N(6), Period: 30 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Share, l.Consistency.LeaseTTL, l.Consistency.OnStoreError = 1, 5*time.Second, params.OnErrorDeny
			}))
			every := time.Duration(30+r.Int64N(60)) * time.Second
			begun := time.Now()
			f.nodes = append(f.nodes, f.node(Options{ProbeEvery: every}), f.node(Options{}))
			for range 20 {
				next := begun.Add((time.Since(begun)/every + 1) * every)
				// A node that is asked again and again fetches more at a time.
				time.Sleep(time.Until(next) - time.Duration(r.Int64N(int64(15*time.Second))))
				for time.Now().Before(next) {
					w.ask(f.nodes[1])
					time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
				}
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				for i := range f.nodes {
					for range 30 {
						w.ask(f.nodes[i])
					}
				}
			}
			if w.over.Load() != 0 || w.admitted.Load() < 50 {
				t.Errorf("%d too many: %s", w.over.Load(), w)
			}
		})
	}
}
