package sharedtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// again carries calls that force costs out again: at once, and after later ones.
type again struct {
	weir.Store
	before [][]weir.Op
	n      int
}

func repeated(f *faulty) *again {
	r := &again{Store: f.Store}
	f.Store = r
	return r
}

func (r *again) Take(ctx context.Context, ops []weir.Op) error {
	kept := append([]weir.Op(nil), ops...)
	for i := range kept {
		kept[i].Key = strings.Clone(kept[i].Key)
	}
	if err := r.Store.Take(ctx, ops); err != nil || ops[len(ops)-1].Verb != weir.Force {
		return err
	}
	r.n++
	for _, old := range append(r.before, kept) {
		if err := r.Store.Take(ctx, append([]weir.Op(nil), old...)); err != nil {
			return err
		}
	}
	if r.before = append(r.before, kept); len(r.before) > 3 {
		r.before = r.before[1:]
	}
	return nil
}

// Regions that are cut off from each other when the limit is nearly used up admit no
// more than the bound, to the unit, and nothing is lost when they are together again.
func testRegionsCut(t *testing.T, newNode New) {
	for _, x := range []fault{down, stall, lost} {
		virtual(t, fmt.Sprint("fault ", x), func(t *testing.T) {
			const regions, over = 4, 90
			w := newWorld(t, newNode, regions, 1, Options{})
			l := compiled(t, weir.PerHour(2000, algorithm.FixedWindow), func(l *weir.Limit) {
				eventual(over)(l)
				l.Consistency.Share = 1000 // little is fetched, and returned after it was reported
			})
			load := newLoad(w.fleet, l)
			load.allow(over)
			for load.admitted.Load() < 1965 {
				for _, s := range w.nodes {
					load.ask(s)
				}
				time.Sleep(2 * time.Millisecond)
				if load.offered.Load() > 1_000_000 {
					t.Fatalf("only %d are admitted", load.admitted.Load())
				}
			}
			// What idle nodes hold is returned, and all is reported.
			time.Sleep(3 * time.Second)
			before := load.admitted.Load()
			w.cutOff(x)
			for range 200 {
				for _, s := range w.nodes {
					load.ask(s)
				}
				time.Sleep(20 * time.Millisecond)
			}
			// Each takes what is left for its own, as far as the others need not know.
			n := load.admitted.Load()
			t.Logf("%d before, %d after", before, n)
			least := int64(2000 + over - 30)
			if x == lost {
				least = 2000 // all is reported, though no answer comes
			}
			if n > 2000+over || load.over.Load() != 0 || n < least {
				t.Errorf("%d admitted of 2000 and %d, %d before", n, over, before)
			}
			w.cutOff(none)
			time.Sleep(3 * time.Second)
			for i, s := range w.stores {
				if left := (&fleet{T: t, shared: s}).left("k", l); left > max(2000-n, 0) {
					t.Errorf("region %d has %d left, %d were admitted", i, left, n)
				}
			}
			for _, s := range w.nodes {
				if st := s.Stats(); st.Lag != 0 {
					t.Errorf("lag %s", st.Lag)
				}
			}
		})
	}
}

// The bound holds whatever happens between regions, and to their stores, meanwhile:
// what a store lost can be admitted once more.
func testRegionFaults(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		for seed := range drawn(t, 2, 30) {
			virtual(t, fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) {
				aligned(time.Minute)
				w := newWorld(t, newNode, 3, 2, Options{NodeTTL: time.Minute})
				w.far(20 * time.Millisecond)
				l := compiled(t, weir.PerMinute(3000, a), func(l *weir.Limit) {
					eventual(200)(l)
					l.Consistency.OnStoreError = params.OnErrorDeny
				})
				load := newLoad(w.fleet, l)
				load.allow(200)
				r := rand.New(rand.NewPCG(seed, 1))
				stop := time.Now().Add(50 * time.Second)
				w.Cleanup(func() { w.cutOff(none) })
				go func() {
					for time.Now().Before(stop) {
						p := w.paths[r.IntN(3)][r.IntN(3)]
						p.set([]fault{down, stall, lost, tenth}[r.IntN(4)])
						time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
						p.set(none)
					}
				}()
				load.run(300, 57*time.Second, true)
				most := int64(3200)
				if a == algorithm.TokenBucket {
					most = 6200
				}
				if n := load.admitted.Load(); load.over.Load() != 0 || n > most || n < 2500 {
					t.Errorf("%d admitted: %s", n, load)
				}
			})
		}
	}
}

// Pushes that come twice, and again after later ones, are counted once.
func testRegionReports(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, newNode, 2, 1, Options{})
		again := repeated(w.paths[0][1])
		l := compiled(t, weir.PerHour(10_000, algorithm.SlidingWindow), eventual(60))
		spent := int64(0)
		for range 200 {
			for range 1 + spent%7 {
				if !w.take(w.nodes[0], "k", l, 1).Allowed() {
					t.Fatal("refused")
				}
				spent++
			}
			time.Sleep(time.Duration(50+spent%400) * time.Millisecond)
		}
		if err := w.nodes[0].Close(); err != nil {
			t.Fatal(err)
		}
		// The other may think that it was more, by what was fetched and returned.
		left := (&fleet{T: t, shared: w.stores[1]}).left("k", l)
		if left > 10_000-spent || left < 10_000-spent-30 || again.n < 20 {
			t.Errorf("%d are left of 10000 of which %d were spent; %d calls were repeated", left, spent, again.n)
		}
	})
}

// A region whose store is lost and comes back empty admits at most what the store
// lost once more; what others had reported to it they report again.
func testRegionStoreLost(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		const over = 60
		empty := memory.New(memory.Options{MaxBytes: 16 << 20})
		t.Cleanup(func() { empty.Close() })
		w := newWorld(t, newNode, 3, 1, Options{})
		store := &replaced{Store: w.stores[1].Store, by: empty}
		w.stores[1].Store = store
		l := compiled(t, weir.PerHour(3000, algorithm.FixedWindow), eventual(over))
		load := newLoad(w.fleet, l)
		own := int64(0)
		for load.admitted.Load() < 1500 {
			for i, s := range w.nodes {
				if load.ask(s) && i == 1 {
					own++
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		store.lost.Store(true)
		for range 4000 {
			for _, s := range w.nodes {
				load.ask(s)
			}
			time.Sleep(5 * time.Millisecond)
		}
		n := load.admitted.Load()
		t.Logf("%d admitted of 3000 and %d, %d by the region before its store was lost", n, over, own)
		if n > 3000+over+own || n < 2900 {
			t.Errorf("%d admitted of 3000 and %d, %d by the region before its store was lost", n, over, own)
		}
	})
}

// Callers with deadlines of every kind in two regions: of limits that both count
// together no more passes than the bound, nothing is decided by policy, and neither the
// region's own store nor the other region counts as out.
func testRegionDeadlines(t *testing.T, newNode New) {
	for seed := range drawn(t, 2, 100) {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprint(seed, prompt), func(t *testing.T) {
				aligned(time.Hour)
				w := newWorld(t, newNode, 2, 2, Options{Prompt: prompt})
				w.far(30 * time.Millisecond)
				for _, s := range w.stores {
					s.delay.Store(int64(time.Millisecond))
				}
				var ls []*weir.Limit
				for i, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.FixedWindow} {
					l := &weir.Limit{Name: fmt.Sprint("limit ", i), Algorithm: a, Count: 400, Period: time.Hour}
					ls = append(ls, compiled(t, l, func(l *weir.Limit) {
						eventual(40)(l)
						l.Consistency.OnStoreError = params.OnErrorAllow
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
					if st := s.Stats(); st.BreakerOpen || st.Failed != 0 || st.Degraded != 0 || st.Regions[0].BreakerOpen || st.Regions[0].Failures != 0 {
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
