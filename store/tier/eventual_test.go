package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

func eventual(over int64) func(*weir.Limit) {
	return func(l *weir.Limit) {
		l.Consistency.Mode = weir.ConsistencyEventual
		l.Consistency.MaxOvershoot = over
	}
}

// aligned waits for the next whole multiple of d. A bubble begins at midnight.
func aligned(d time.Duration) {
	now := time.Now()
	time.Sleep(now.Truncate(d).Add(d).Sub(now))
}

// Offered six times the limit, a fleet that counts on its own keeps to the limit
// and what it may be overshot by, with few calls.
func TestEventualKeepsItsBound(t *testing.T) {
	for _, a := range lenders() {
		for _, nodes := range fleets() {
			virtual(t, fmt.Sprintf("%s, %d nodes", a.Name(), nodes), func(t *testing.T) {
				f := newFleet(t, nodes, tier.Options{})
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
// meanwhile: slow, refusing calls, losing answers, away for a while.
func TestTheoremEventualBoundUnderFaults(t *testing.T) {
	for name, x := range map[string]fault{"slow": none, "tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for seed := range drawn(t, 1, 20) {
			virtual(t, fmt.Sprint(name, " ", seed), func(t *testing.T) {
				f := newFleet(t, 8, tier.Options{NodeTTL: time.Minute})
				if name == "slow" {
					f.shared.delay.Store(int64(15 * time.Millisecond))
				}
				l := compiled(t, weir.PerMinute(2000, algorithm.FixedWindow), func(l *weir.Limit) {
					eventual(100)(l)
					l.Consistency.OnStoreError = weir.OnErrorDeny
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
func TestEventualCapIsTight(t *testing.T) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 8, tier.Options{})
			l := compiled(t, weir.PerHour(2000, a), func(l *weir.Limit) {
				eventual(160)(l)
				l.Consistency.OnStoreError = weir.OnErrorDeny
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
			// When all is told, somebody has seen by how much.
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
func TestSharesOfTheOvershootNeverAddUpToMore(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 0, tier.Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), func(l *weir.Limit) {
			eventual(80)(l)
			l.Consistency.OnStoreError = weir.OnErrorDeny
		})
		w := newLoad(f, l)
		for range 8 {
			f.nodes = append(f.nodes, f.node(tier.Options{}))
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
func TestEventualKeepsItsBoundForLong(t *testing.T) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 4, tier.Options{})
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

// A push that is made twice, or after a later one, is counted once.
func TestPushesAreSafeToRepeat(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		l := compiled(t, weir.PerHour(10_000, algorithm.SlidingWindow), eventual(1000))
		repeat := &repeating{Store: f.shared.Store}
		f.shared.Store = repeat
		spent := int64(0)
		for range 300 {
			for range 1 + spent%7 {
				if !f.take(f.nodes[0], "k", l, 1).Allowed() {
					t.Fatal("refused")
				}
				spent++
			}
			time.Sleep(time.Duration(50+spent%400) * time.Millisecond)
		}
		if err := f.nodes[0].Close(); err != nil {
			t.Fatal(err)
		}
		if left := f.left("k", l); left != 10_000-spent {
			t.Errorf("%d are left of 10000 of which %d were spent", left, spent)
		}
		if repeat.n < 100 {
			t.Errorf("only %d calls were repeated", repeat.n)
		}
	})
}

// repeating carries calls that force costs out again: at once, and once more
// after the next one.
type repeating struct {
	weir.Store
	before []weir.Op
	n      int
}

func (r *repeating) Take(ctx context.Context, ops []weir.Op) error {
	again := append([]weir.Op(nil), ops...)
	if err := r.Store.Take(ctx, ops); err != nil || ops[len(ops)-1].Verb != weir.Force {
		return err
	}
	r.n++
	if err := r.Store.Take(ctx, append([]weir.Op(nil), again...)); err != nil {
		return err
	}
	if r.before != nil {
		if err := r.Store.Take(ctx, append([]weir.Op(nil), r.before...)); err != nil {
			return err
		}
	}
	for i := range again {
		again[i].Key = string(append([]byte(nil), again[i].Key...))
	}
	r.before = again
	return nil
}

// A node that has gone takes its share of the overshoot with it until the next
// window; the others go on.
func TestLostNodeKeepsItsShare(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 4, tier.Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), eventual(80))
		w := newLoad(f, l)
		for round := range 2 {
			before := w.admitted.Load()
			for _, s := range f.nodes {
				for range 15 {
					w.ask(s)
				}
			}
			gone := f.nodes[0]
			f.nodes = f.nodes[1:]
			for range 3000 {
				for _, s := range f.nodes {
					w.ask(s)
				}
			}
			if n := w.admitted.Load() - before; n > 1080 || n < 980 {
				t.Errorf("window %d: %d admitted of 1000 and 80: %s", round, n, w)
			}
			f.nodes = append([]*tier.Store{gone}, f.nodes...)
			aligned(time.Minute)
		}
	})
}

// Requests that a node does not know about yet are asked for first, unless the
// limit trusts them.
func TestColdKeys(t *testing.T) {
	for _, optimistic := range []bool{false, true} {
		virtual(t, fmt.Sprint("optimistic ", optimistic), func(t *testing.T) {
			f := newFleet(t, 1, tier.Options{})
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

// Units that were given back in one window are not spent in the next without
// being counted there.
func TestCreditEndsWithItsWindow(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), eventual(100))
		s := f.nodes[0]
		take := func(ops ...weir.Op) []weir.Op {
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return ops
		}
		time.Sleep(59500 * time.Millisecond)
		spent := take(weir.Op{Key: "k", Limit: l, Cost: 40})
		time.Sleep(300 * time.Millisecond) // it is told
		take(spent[0].Undo(40))
		time.Sleep(300 * time.Millisecond)
		for range 30 {
			take(weir.Op{Key: "k", Limit: l, Cost: 1})
		}
		time.Sleep(300 * time.Millisecond)
		if left := f.left("k", l); left != 970 {
			t.Errorf("%d are left of 1000 of which 30 were spent", left)
		}
	})
}

// Rules that are reloaded at every step, with another mode each time, lose count
// of nothing.
func TestReloadsAtEveryStep(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingSubwindows} {
		for seed := range drawn(t, 3, 200) {
			virtual(t, fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) {
				f := newFleet(t, 3, tier.Options{})
				f.shared.delay.Store(int64(time.Millisecond))
				r := rand.New(rand.NewPCG(seed, 9))
				version := func() *weir.Limit {
					m := []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased, weir.ConsistencyEventual}[r.IntN(3)]
					return compiled(t, weir.PerHour(1000, a), func(l *weir.Limit) {
						l.Name = "reloaded"
						l.Consistency.Mode, l.Consistency.MaxOvershoot = m, 60
					})
				}
				passed := int64(0)
				l := version()
				for range 4000 {
					if r.IntN(20) == 0 {
						l = version()
					}
					s := f.nodes[r.IntN(3)]
					if r.IntN(10) == 0 {
						ops := []weir.Op{{Key: "k", Limit: l, Cost: 2}}
						if err := s.Take(context.Background(), ops); err != nil {
							t.Fatal(err)
						}
						if ops[0].Charged && r.IntN(2) == 0 {
							if err := s.Take(context.Background(), []weir.Op{ops[0].Undo(2)}); err != nil {
								t.Fatal(err)
							}
						} else if ops[0].Charged {
							passed += 2
						}
					} else if f.take(s, "k", l, 1).Allowed() {
						passed++
					}
					time.Sleep(time.Duration(r.Int64N(int64(5 * time.Millisecond))))
				}
				for _, s := range f.nodes {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				left := f.left("k", l)
				if passed > 1060 || passed < 900 || left != max(1000-passed, 0) {
					t.Errorf("%d passed of 1000, and %d are left", passed, left)
				}
			})
		}
	}
}
