package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// Offered six times the limit, a fleet with leases admits never more than the
// limit, and nearly all of it.
func testLeasedCount(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, nodes := range fleets() {
			for _, skewed := range []bool{false, true} {
				if skewed && nodes != 4 {
					continue
				}
				virtual(t, fmt.Sprintf("%s, %d nodes, skewed %v", a.Name(), nodes, skewed), func(t *testing.T) {
					f := newFleet(t, newNode, nodes, Options{})
					f.shared.delay.Store(int64(time.Millisecond))
					w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 1000, Period: 10 * time.Second}, leased))
					// From the beginning of a window.
					now := time.Now()
					time.Sleep(now.Truncate(10 * time.Second).Add(10 * time.Second).Sub(now))
					const d = 20*time.Second - time.Millisecond
					w.run(600, d, skewed)
					least := 0.98
					if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
						least = 0.90
					}
					if a == algorithm.SlidingSubwindows || a == algorithm.SlidingWindow {
						least *= 60. / 61 // what the algorithm itself admits
					}
					share := float64(w.admitted.Load()) / could(w.limit, d)
					if a == algorithm.SlidingCounter {
						share = float64(w.admitted.Load()) / 2000
					}
					t.Logf("%.3f: %s", share, w)
					if w.over.Load() != 0 || share < least || w.degraded.Load() != 0 {
						t.Errorf("%.3f of what could pass, %d degraded: %s", share, w.degraded.Load(), w)
					}
				})
			}
		}
	}
}

// Whatever the store does meanwhile, leases admit no more than the limit.
func testLeasedFaults(t *testing.T, newNode New) {
	for name, x := range map[string]fault{"tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for _, a := range lenders() {
			for seed := range drawn(t, 1, 20) {
				virtual(t, fmt.Sprint(name, " ", a.Name(), " ", seed), func(t *testing.T) {
					f := newFleet(t, newNode, 4, Options{NodeTTL: time.Minute})
					f.shared.delay.Store(int64(2 * time.Millisecond))
					w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 800, Period: 8 * time.Second}, func(l *weir.Limit) {
						leased(l)
						l.Consistency.OnStoreError = params.OnErrorDeny
					}))
					r := rand.New(rand.NewPCG(seed, 2))
					end := time.Now().Add(16 * time.Second)
					f.Cleanup(func() { f.shared.set(none) })
					go func() {
						for time.Now().Before(end) {
							f.shared.set(x)
							time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
							f.shared.set(none)
							time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
						}
					}()
					w.run(400, 20*time.Second, true)
					if n := w.admitted.Load(); w.over.Load() != 0 || n < 100 {
						t.Errorf("%d too many: %s", w.over.Load(), w)
					}
				})
			}
		}
	}
}

// A node that has crashed with leases costs what it held, and admits nothing.
func testCrashedNode(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 2, Options{})
		w := newLoad(f, compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), leased))
		for range 100 {
			w.ask(f.nodes[0])
		}
		st := f.nodes[0].Stats()
		if st.LeaseUnits == 0 {
			t.Fatal("nothing is held")
		}
		// It can return nothing, and is not asked any more.
		held := st.LeaseUnits
		f.nodes = f.nodes[1:]
		f.shared.set(none)
		for range 3000 {
			w.ask(f.nodes[0])
		}
		if n := w.admitted.Load(); n != 1000-held || w.over.Load() != 0 {
			t.Errorf("%d admitted of 1000 of which %d were held by the node that is gone: %s", n, held, w)
		}
	})
}

// A node that was paused across the end of its leases spends nothing of them.
func testPausedNode(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 2, Options{})
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 400, Period: 4 * time.Second}, leased))
			for range 60 {
				w.ask(f.nodes[0])
			}
			if f.nodes[0].Stats().LeaseUnits == 0 {
				t.Fatal("nothing is held")
			}
			// The node hears and does nothing for five seconds.
			time.Sleep(5 * time.Second)
			for range 500 {
				w.ask(f.nodes[1])
			}
			for range 500 {
				w.ask(f.nodes[0])
			}
			if w.over.Load() != 0 {
				t.Error(w)
			}
		})
	}
}

// Idle units are returned, and all units on Close.
func testIdleLeases(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 2, Options{})
			w := newLoad(f, compiled(t, weir.PerHour(1000, a), leased))
			for range 100 {
				w.ask(f.nodes[0])
			}
			s := f.nodes[0]
			// Of two nodes each fetches an eighth of what remains at a time.
			if n := s.Stats().LeaseUnits; n == 0 || n > 1000/8+1000/8/4 {
				t.Fatalf("%d units are held", n)
			}
			time.Sleep(1200 * time.Millisecond)
			if st := s.Stats(); st.LeaseUnits != 0 || st.LeaseKeys != 0 || st.Returned == 0 || st.Stranded != 0 {
				t.Errorf("after the lease: %+v", st)
			}
			if left := f.left("k", w.limit); left < 899 || left > 901 {
				t.Errorf("%d are left of 1000 of which 100 were spent", left)
			}
			for range 100 {
				w.ask(s)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left := f.left("k", w.limit); left < 798 || left > 801 {
				t.Errorf("%d are left of 1000 of which 200 were spent", left)
			}
		})
	}
}

// In an outage a node spends what it holds, which is exact, and then
// its share.
func testLeasesInOutage(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 2, Options{})
		w := newLoad(f, compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), leased))
		for range 100 {
			w.ask(f.nodes[0])
		}
		held := f.nodes[0].Stats().LeaseUnits
		f.shared.set(down)
		for i := range held {
			if d := f.take(f.nodes[0], "k", w.limit, 1); !d.Allowed() || d.Guarantee().Degraded {
				t.Fatalf("unit %d of %d: %+v", i, held, d)
			}
		}
		if d := f.take(f.nodes[0], "k", w.limit, 1); !d.Guarantee().Degraded {
			t.Errorf("beyond what is held: %+v", d)
		}
	})
}

// Requests larger than a lease, looks, forced costs and refunds.
func testLeasedVerbs(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 2, Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.SlidingWindow), leased)
		s := f.nodes[0]
		op := func(v weir.Verb, cost, id int64) weir.Op {
			time.Sleep(time.Millisecond) // nothing is under way any more
			ops := []weir.Op{{Key: "k", Limit: l, Cost: cost, Verb: v, ID: id}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return ops[0]
		}
		left := func(want int64) {
			t.Helper()
			if o := op(weir.Peek, 1, 0); o.Decision.Remaining != want || !o.Decision.Allowed() {
				t.Errorf("%d remain, want %d: %+v", o.Decision.Remaining, want, o)
			}
		}
		left(1000)
		if o := op(weir.Spend, 900, 0); !o.Charged {
			t.Errorf("%+v", o)
		}
		left(100)
		var last weir.Op
		for range 20 {
			last = op(weir.Spend, 1, 0)
		}
		left(80)
		if o := op(weir.Refund, 1, last.Receipt()); !o.Charged {
			t.Errorf("%+v", o)
		}
		left(81)
		if o := op(weir.Refund, 50, last.Receipt()); !o.Charged {
			t.Errorf("%+v", o)
		}
		left(131)
		op(weir.Force, 31, 0)
		left(100)
		if o := op(weir.Spend, 200, 0); o.Charged || o.Decision.Remaining > 100 {
			t.Errorf("%+v", o)
		}
		if o := op(weir.Spend, 2000, 0); o.Charged || o.Decision.RetryAfter != weir.Never {
			t.Errorf("%+v", o)
		}
	})
}
