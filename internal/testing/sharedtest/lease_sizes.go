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
	"github.com/weirlimit/weir/internal/testing/race"
)

// The table is bounded: of a million keys few are held, none loses units
// silently, and the limit of each holds.
func testLeaseTable(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{MaxBytes: 1 << 20})
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

// Nodes that fetch a little, wait until the bucket is full again and then spend
// all at once, get no more than the burst.
func testLeasedBurst(t *testing.T, newNode New) {
	for _, loose := range []bool{false, true} {
		virtual(t, fmt.Sprint("loose ", loose), func(t *testing.T) {
			f := newFleet(t, newNode, 8, Options{})
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

// A node that is killed takes along what it uses in a quarter of a second, or a few
// units.
func testKilledNode(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, rate := range []int{1, 30, 300, 3000} {
			virtual(t, fmt.Sprint(a.Name(), rate), func(t *testing.T) {
				f := newFleet(t, newNode, 3, Options{})
				f.shared.delay.Store(int64(time.Millisecond))
				l := compiled(t, weir.PerHour(1_000_000, a), leased)
				rnd := rand.New(rand.NewPCG(uint64(rate), 0))
				most := int64(0)
				ask := func(rate int, lasts time.Duration) {
					for end := time.Now().Add(lasts); time.Now().Before(end); {
						time.Sleep(time.Duration(rnd.Int64N(int64(2*time.Second) / int64(rate))))
						f.take(f.nodes[0], "k", l, 1)
						most = max(most, f.nodes[0].Stats().LeaseUnits)
					}
				}
				ask(rate, 10*time.Second)
				if bound := max(int64(rate)/4, 16+4); most > bound {
					t.Errorf("%d units a second, and %d were held, want at most %d", rate, most, bound)
				}
				// So it is shortly after the rate has fallen.
				ask(max(rate/10, 1), 2*time.Second)
				most = 0
				ask(max(rate/10, 1), 2*time.Second)
				if bound := max(int64(rate)/40, 16+4); most > bound {
					t.Errorf("%d units a second after ten times as many, and %d were held, want at most %d", rate/10, most, bound)
				}
			})
		}
	}
}

// A key that comes once in a few seconds fetches a few units for as long as a
// hundredth of the period, and so does not ask the shared store each time.
func testSeldomKeys(t *testing.T, newNode New) {
	for i, a := range lending {
		if testing.Short() && i%3 != 0 {
			continue // a bucket and a window
		}
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 2, Options{})
			w := newLoad(f, compiled(t, weir.PerHour(1000*fast(a), a), leased))
			for range 200 {
				w.ask(f.nodes[0])
				if n := f.nodes[0].Stats().LeaseUnits; n > 16+4 {
					t.Fatalf("%d units are held", n)
				}
				time.Sleep(3 * time.Second)
			}
			if w.admitted.Load() != 200 || f.nodes[0].Stats().Fetched > 200/4 {
				t.Errorf("%s", w)
			}
			time.Sleep(40 * time.Second)
			if st := f.nodes[0].Stats(); st.LeaseUnits != 0 || st.LeaseKeys != 0 || st.Stranded != 0 {
				t.Errorf("after the lease: %+v", st)
			}
		})
	}
}

// fast returns how many times as much a bucket must admit so that its lots need not end early.
func fast(a weir.Algorithm) int64 {
	if a.Traits()&weir.Refills != 0 {
		return 1000
	}
	return 1
}

// A lot that is fetched while the one before has units left does not make them many.
func testSeldomLots(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		w := newLoad(f, compiled(t, weir.PerDay(10_000_000, algorithm.TokenBucket), leased))
		for range 200 {
			w.ask(f.nodes[0])
			time.Sleep(2 * time.Second)
		}
		if st := f.nodes[0].Stats(); w.admitted.Load() != 200 || st.Fetched > 200/8 || st.Returned != 0 {
			t.Errorf("%s", w)
		}
	})
}

// What nodes fetched for a key that comes seldom is not missing where the limit is
// reached: it is little, and less as less remains.
func testSeldomLimit(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 4, Options{})
			period := 20 * time.Minute
			if testing.Short() {
				period /= 4
			}
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 300, Period: period}, leased))
			for i := range 1800 {
				w.ask(f.nodes[i%4])
				time.Sleep(period / 1200)
			}
			if n, could := float64(w.admitted.Load()), could(w.limit, period*3/2); n < 0.97*could || w.over.Load() > 0 {
				t.Errorf("of %.0f: %s", could, w)
			}
		})
	}
}

// Many units live no longer than a second beside few that do, and are not hidden by
// them.
func testManyUnits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		s := f.nodes[0]
		l := compiled(t, weir.PerHour(1_000_000, algorithm.TokenBucket), leased)
		const keys = 1000 // enough that there are some beside any other
		for range 3 {
			for k := range keys {
				f.take(s, fmt.Sprint("seldom", k), l, 1)
			}
			time.Sleep(3 * time.Second)
		}
		seldom := s.Stats().LeaseUnits
		for range 200 {
			f.take(s, "often", l, 1)
		}
		if n := s.Stats().LeaseUnits; seldom < keys || seldom > 16*keys || n < seldom+100 {
			t.Fatalf("%d units are held, %d of them by keys that come seldom", n, seldom)
		}
		time.Sleep(1200 * time.Millisecond)
		if st := s.Stats(); st.LeaseUnits != seldom || st.LeaseKeys != keys {
			t.Errorf("after a second %d units are held of %d keys, want %d of %d", st.LeaseUnits, st.LeaseKeys, seldom, keys)
		}
	})
}

// Leases that the rules give a time live for all of it, whatever they hold.
func testLeaseTTL(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		l := compiled(t, weir.PerHour(100_000, algorithm.FixedWindow), func(l *weir.Limit) {
			leased(l)
			l.Consistency.LeaseTTL = 10 * time.Second
		})
		for range 200 {
			f.take(f.nodes[0], "k", l, 1)
		}
		held := f.nodes[0].Stats().LeaseUnits
		time.Sleep(9 * time.Second)
		if n := f.nodes[0].Stats().LeaseUnits; held < 100 || n != held {
			t.Errorf("%d of %d units are held after nine seconds", n, held)
		}
		time.Sleep(1200 * time.Millisecond)
		if n := f.nodes[0].Stats().LeaseUnits; n != 0 {
			t.Errorf("%d of %d units are held after ten", n, held)
		}
	})
}

// A decision by what the node holds does not allocate.
func testWarmAllocations(t *testing.T, newNode New) {
	if race.Enabled {
		t.Skip("the race detector empties pools")
	}
	f := newFleet(t, newNode, 1, Options{Timeout: 10 * time.Second})
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
