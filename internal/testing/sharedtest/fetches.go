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

// Connections that break ten times in 20 s, after calls were carried out or before,
// lose next to no units of a leased limit: a fetch is repeated under its number.
func testRepeatedFetches(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(2, 1), 100) {
		for _, a := range lendingWindows {
			for _, prompt := range []bool{false, true} {
				virtual(t, fmt.Sprint(a.Name(), seed, prompt), func(t *testing.T) {
					f := newFleet(t, newNode, 3, Options{Prompt: prompt})
					c := f.cut(seed, 300*time.Millisecond)
					f.shared.delay.Store(int64(time.Millisecond))
					s := &stalls{rate: 500, lasts: 20 * time.Second, times: 10, longest: 395 * time.Millisecond}
					s.fault = func() func() {
						c.share.Store(100)
						return func() { c.share.Store(0) }
					}
					l := compiled(t, weir.PerHour(20_000, a), leasedOr(params.OnErrorDeny))
					n := s.run(t, f.nodes, l, seed)
					t.Logf("%d of %d, %d calls cut", n, l.Count, c.cuts.Load())
					if n > l.Count || n < l.Count*95/100 {
						t.Errorf("%d admitted of %d", n, l.Count)
					}
				})
			}
		}
	}
}

// Whatever share of the calls is cut at random, over many short windows and with keys
// that nodes forget and meet again, no span gets more than the limit: a fetch that was
// not carried out, or for another window, is never taken for one that was.
func testRepeatedFetchCount(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(3, 1), 100) {
		for _, a := range lenders() {
			virtual(t, fmt.Sprint(a.Name(), seed), func(t *testing.T) {
				f := newFleet(t, newNode, 3, Options{})
				c := f.cut(seed, 2*time.Second)
				f.shared.delay.Store(int64(time.Millisecond))
				l := &weir.Limit{Algorithm: a, Count: 2000, Period: 3 * time.Second}
				w := newLoad(f, compiled(t, l, leasedOr(params.OnErrorDeny)))
				rnd := rand.New(rand.NewPCG(seed, 2))
				for range fewer(12, 5) {
					c.share.Store(rnd.Int64N(40))
					w.run(200+1800*rnd.Float64(), time.Duration(1+rnd.Int64N(15))*time.Second, rnd.IntN(2) == 0)
					time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Second))))
				}
				t.Logf("%s, %d calls cut", w, c.cuts.Load())
				if w.worst() > 0 {
					t.Errorf("%d too many", w.worst())
				}
			})
		}
	}
}

// Three and five nodes on a store that stands still again and again use what there is
// of a leased limit: what is answered late is taken over.
func testStalls(t *testing.T, newNode New) {
	for seed := range drawn(t, 2, 100) {
		for i, a := range lending {
			for _, prompt := range []bool{false, true} {
				if testing.Short() && prompt != (i%2 == 0) {
					continue
				}
				virtual(t, fmt.Sprint(a.Name(), seed, prompt), func(t *testing.T) {
					f := newFleet(t, newNode, 3+2*int(seed%2), Options{Prompt: prompt})
					halting := &halting{Store: f.shared.Store}
					f.shared.Store = halting
					f.shared.delay.Store(int64(time.Millisecond))
					s := &stalls{rate: 500, lasts: 20 * time.Second, times: 10, longest: 395 * time.Millisecond, fault: halting.halt}
					l := compiled(t, weir.PerHour(20_000, a), leasedOr(params.OnErrorDeny))
					begin := time.Now()
					n, most := s.run(t, f.nodes, l, seed), l.Count
					if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
						most += int64(float64(l.Count)*time.Since(begin).Hours()) + 1
					}
					t.Logf("%d of %d", n, most)
					if n > most || n < l.Count*95/100 {
						t.Errorf("%d admitted of %d", n, most)
					}
				})
			}
		}
	}
}

// A decision in the last microseconds of a window ends, though what it fetches can no longer
// be drawn: it asks the store after few fetches.
func testFetchAtTheEnd(t *testing.T, newNode New) {
	for _, a := range lendingWindows {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			l := compiled(t, &weir.Limit{Algorithm: a, Count: 1000, Period: time.Second}, leasedOr(params.OnErrorDeny))
			for _, early := range []time.Duration{1, 2, 400, 512, 513, 1000, 2000} {
				aligned(time.Second)
				time.Sleep(time.Second - early*time.Microsecond)
				before := f.nodes[0].Stats().Calls
				if !f.take(f.nodes[0], "k", l, 3).Allowed() {
					t.Errorf("%d us before the end: refused", early)
				}
				if n := f.nodes[0].Stats().Calls - before; n > 10 {
					t.Errorf("%d us before the end: %d calls for one decision", early, n)
				}
			}
		})
	}
}
