package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

var lending = []weir.Algorithm{
	algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter,
	algorithm.SlidingSubwindows,
}

func leased(l *weir.Limit) { l.Consistency.Mode = weir.ConsistencyLeased }

// Offered six times the limit, a fleet with leases admits never more than the
// limit, and nearly all of it.
func TestLeasedAdmitsTheLimit(t *testing.T) {
	for _, a := range lenders() {
		for _, nodes := range fleets() {
			for _, skewed := range []bool{false, true} {
				if skewed && nodes != 4 {
					continue
				}
				virtual(t, fmt.Sprintf("%s, %d nodes, skewed %v", a.Name(), nodes, skewed), func(t *testing.T) {
					f := newFleet(t, nodes, tier.Options{})
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

// A node that has crashed with leases costs what it held, and admits nothing.
func TestCrashedNodeAdmitsNothing(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 2, tier.Options{})
		w := newLoad(f, compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), leased))
		for range 100 {
			w.ask(f.nodes[0])
		}
		st := f.nodes[0].Stats()
		if st.LeaseUnits == 0 {
			t.Fatal("nothing is held")
		}
		// It can return nothing, and nobody asks it any more.
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
func TestPausedNodeSpendsNothingLate(t *testing.T) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 2, tier.Options{})
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

// What lies idle is given back, and so is everything on Close.
func TestLeasesAreReturned(t *testing.T) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 2, tier.Options{})
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
			if left := f.left("k", w.limit); left < 900 || left > 901 {
				t.Errorf("%d are left of 1000 of which 100 were spent", left)
			}
			for range 100 {
				w.ask(s)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left := f.left("k", w.limit); left < 800 || left > 801 {
				t.Errorf("%d are left of 1000 of which 200 were spent", left)
			}
		})
	}
}

// While the store is away a node spends what it holds, which is exact, and then
// its share.
func TestLeasesAreSpentWhileTheStoreIsAway(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 2, tier.Options{})
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

// Requests larger than a lease, looks, forced costs and units given back.
func TestLeasedVerbs(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 2, tier.Options{})
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

// The table is bounded: of a million keys few are held, none loses units
// silently, and the limit of each holds.
func TestLeaseTableIsBounded(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{MaxBytes: 1 << 20})
		s := f.nodes[0]
		l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), leased)
		const keys, each = 20_000, 3
		for k := range keys {
			for range each {
				f.take(s, fmt.Sprint("key ", k), l, 1)
			}
		}
		st := s.Stats()
		if st.LeaseKeys > 1<<20/2/250 || st.LeaseKeys < 500 {
			t.Errorf("%d keys are held in half a megabyte", st.LeaseKeys)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for k := range keys {
			if f.left(fmt.Sprint("key ", k), l) != 1000-each {
				wrong++
			}
		}
		if st := s.Stats(); wrong > 0 && st.Stranded == 0 || st.Stranded > 0 {
			t.Errorf("%d keys have lost units: %+v", wrong, st)
		}
	})
}

// A limit that is changed goes on with what it holds, and a new count holds at
// once for what is fetched.
func TestReloadKeepsLeases(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		named := func(n int64) *weir.Limit {
			return compiled(t, weir.PerMinute(n, algorithm.FixedWindow), func(l *weir.Limit) { l.Name = "reloaded"; leased(l) })
		}
		old, raised := named(100), named(300)
		passed := 0
		for range 200 {
			if f.take(f.nodes[0], "k", old, 1).Allowed() {
				passed++
			}
		}
		for range 400 {
			if f.take(f.nodes[0], "k", raised, 1).Allowed() {
				passed++
			}
		}
		if passed != 300 {
			t.Errorf("%d passed of 100, raised to 300", passed)
		}
	})
}

// A request that meets limits of every mode passes all of them or is charged to
// none: after everything was given back, each has spent what passed.
func TestMixedModesSpendTogether(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 2, tier.Options{})
		limit := func(n int64, m weir.ConsistencyMode) *weir.Limit {
			l := &weir.Limit{Name: m.String(), Algorithm: algorithm.FixedWindow, Count: n, Period: time.Hour}
			l.Consistency = weir.Consistency{Mode: m, DenyCache: weir.DenyCacheOff}
			return compiled(t, l, nil)
		}
		wide, narrow := limit(500, weir.ConsistencyLeased), limit(100, weir.ConsistencyStrict)
		own, tried := limit(80, weir.ConsistencyLocal), limit(60, weir.ConsistencyLeased)
		tried = compiled(t, &weir.Limit{Name: "tried", Algorithm: algorithm.FixedWindow, Count: 60, Period: time.Hour, Consistency: tried.Consistency}, nil)
		passed := int64(0)
		for n := range 400 {
			ops := []weir.Op{
				{Key: "k", Limit: narrow, Cost: 1}, {Key: "k", Limit: wide, Cost: 2},
				{Key: "k", Limit: own, Cost: 1}, {Key: "k", Limit: tried, Cost: 1, Role: weir.Shadow},
			}
			if err := f.nodes[n%2].Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if ops[0].Charged != ops[1].Charged || ops[0].Charged != ops[2].Charged || ops[3].Charged && !ops[0].Charged {
				t.Fatalf("charged in part: %+v", ops)
			}
			if ops[0].Charged != weir.Fold(ops).Allowed() {
				t.Fatalf("charged %v, allowed %v", ops[0].Charged, weir.Fold(ops).Allowed())
			}
			if ops[0].Charged {
				passed++
			}
		}
		for _, s := range f.nodes {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if passed != 100 || f.left("k", narrow) != 0 || f.left("k", wide) != 500-2*passed || f.left("k", tried) != 0 {
			t.Errorf("%d passed; %d, %d and %d are left", passed, f.left("k", narrow), f.left("k", wide), f.left("k", tried))
		}
	})
}

// A decision by what the node holds does not allocate.
func TestWarmLeaseDoesNotAllocate(t *testing.T) {
	f := newFleet(t, 1, tier.Options{Timeout: 10 * time.Second})
	l := compiled(t, weir.PerHour(1<<40, algorithm.FixedWindow), leased)
	s, ctx := f.nodes[0], context.Background()
	for range 200 {
		f.take(s, "k", l, 1)
	}
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.TakeOne(ctx, "k", l, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Take(ctx, ops); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if st := s.Stats(); st.Held < 2000 || st.Fetched > 50 {
		t.Errorf("not warm: %+v", st)
	}
}

func BenchmarkWarmLease(b *testing.B) {
	shared, local := memory.New(memory.Options{MaxBytes: 64 << 20}), memory.New(memory.Options{MaxBytes: 64 << 20})
	defer shared.Close()
	defer local.Close()
	s, err := tier.New(shared, tier.Options{Local: local})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l := compiled(b, weir.PerHour(1<<40, algorithm.SlidingWindow), leased)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	ctx := context.Background()
	for _, store := range []struct {
		name string
		weir.Store
	}{{"memory", shared}, {"tier", s}} {
		b.Run(store.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := store.TakeOne(ctx, keys[i%len(keys)], l, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Nodes that fetch a little, wait until the bucket is full again and then spend
// all at once, get no more than the burst.
func TestLeasedBucketKeepsItsBurst(t *testing.T) {
	for _, loose := range []bool{false, true} {
		virtual(t, fmt.Sprint("loose ", loose), func(t *testing.T) {
			f := newFleet(t, 8, tier.Options{})
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Period: 10 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Loose = loose
			}))
			worst := int64(0)
			for range 5 {
				time.Sleep(20 * time.Second)
				for _, s := range f.nodes {
					for range 6 {
						w.ask(s)
					}
				}
				time.Sleep(490 * time.Millisecond)
				before := w.over.Load()
				for range 1000 {
					for _, s := range f.nodes {
						w.ask(s)
					}
				}
				worst = max(worst, w.over.Load()-before)
			}
			bound := int64(0)
			if loose {
				bound = w.limit.From(weir.FromLooseLease).Guarantee().OverAdmit
				if worst == 0 {
					t.Error("a loose burst is no looser: the test tests nothing")
				}
			}
			if worst > bound {
				t.Errorf("%d units above the burst, at most %d: %s", worst, bound, w)
			}
		})
	}
}

// Whatever the store does meanwhile, leases admit no more than the limit.
func TestTheoremLeasedUnderFaults(t *testing.T) {
	for name, x := range map[string]fault{"tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for _, a := range lenders() {
			for seed := range drawn(t, 1, 20) {
				virtual(t, fmt.Sprint(name, " ", a.Name(), " ", seed), func(t *testing.T) {
					f := newFleet(t, 4, tier.Options{NodeTTL: time.Minute})
					f.shared.delay.Store(int64(2 * time.Millisecond))
					w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 800, Period: 8 * time.Second}, func(l *weir.Limit) {
						leased(l)
						l.Consistency.OnStoreError = weir.OnErrorDeny
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
