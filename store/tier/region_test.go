package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// world is regions, each with a store of its own and so many nodes.
type world struct {
	*fleet            // all nodes
	stores  []*faulty // of the regions
	regions [][]*tier.Store
	// paths are how each region reaches each other.
	paths [][]*faulty
}

// newWorld returns regions of so many nodes each.
func newWorld(t *testing.T, regions, nodes int, opt tier.Options) *world {
	t.Helper()
	return worldOf(t, regions, regions*nodes, opt)
}

// worldOf returns so many nodes in so many regions.
func worldOf(t *testing.T, regions, all int, opt tier.Options) *world {
	t.Helper()
	w := &world{fleet: &fleet{T: t}}
	for range regions {
		w.stores = append(w.stores, newFaulty(t, opt.Now))
	}
	w.shared = w.stores[0]
	for i := range regions {
		var paths []*faulty
		opt, nodes := opt, (all+regions-1-i)/regions
		opt.Region, opt.Nodes, opt.Peers = fmt.Sprint("r", i), nodes, nil
		for j, to := range w.stores {
			p := &faulty{Store: to, mended: make(chan struct{})}
			if paths = append(paths, p); j != i {
				opt.Peers = append(opt.Peers, tier.Peer{Name: fmt.Sprint("r", j), Store: p})
			}
		}
		w.paths = append(w.paths, paths)
		var own []*tier.Store
		f := &fleet{T: t, shared: w.stores[i]}
		for range nodes {
			own = append(own, f.node(opt))
		}
		w.nodes = append(w.nodes, own...)
		w.regions = append(w.regions, own)
	}
	return w
}

// apart lets every call between regions meet a fault.
func (w *world) apart(x fault) {
	for i, paths := range w.paths {
		for j, p := range paths {
			if i != j {
				p.set(x)
			}
		}
	}
}

// far lets every call between regions take d.
func (w *world) far(d time.Duration) {
	for _, paths := range w.paths {
		for _, p := range paths {
			p.delay.Store(int64(d))
		}
	}
}

// calls returns the calls of regions' own stores, and those between regions.
func (w *world) calls() (own, between int64) {
	for i, s := range w.stores {
		own += s.calls.Load()
		for j, p := range w.paths[i] {
			if j != i {
				between += p.calls.Load()
			}
		}
	}
	return own - between, between
}

// Regions that are offered six times the limit together keep to the limit and what
// it may be overshot by.
func TestRegionsKeepTheirBound(t *testing.T) {
	for _, a := range lenders() {
		for _, regions := range []int{2, 5} {
			virtual(t, fmt.Sprintf("%s, %d regions", a.Name(), regions), func(t *testing.T) {
				w := newWorld(t, regions, 2, tier.Options{})
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

// Regions that are cut off from each other when the limit is nearly used up admit no
// more than the bound, to the unit, and nothing is lost when they are together again.
func TestRegionsApart(t *testing.T) {
	for _, x := range []fault{down, stall, lost} {
		virtual(t, fmt.Sprint("fault ", x), func(t *testing.T) {
			const regions, over = 4, 90
			w := newWorld(t, regions, 1, tier.Options{})
			l := compiled(t, weir.PerHour(2000, algorithm.FixedWindow), func(l *weir.Limit) {
				eventual(over)(l)
				l.Consistency.Share = 1000 // little is fetched, and given back after it was told
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
			// What idle nodes hold is given back, and everybody is told.
			time.Sleep(3 * time.Second)
			before := load.admitted.Load()
			w.apart(x)
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
				least = 2000 // all is told, though nobody hears that it was
			}
			if n > 2000+over || load.over.Load() != 0 || n < least {
				t.Errorf("%d admitted of 2000 and %d, %d before", n, over, before)
			}
			w.apart(none)
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

// A region that nobody can tell of what it admits admits its part of the bound and no
// more, however long: of every algorithm, all regions together exactly the bound.
func TestRegionsApartFromTheStart(t *testing.T) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			const regions, over = 4, 90
			aligned(time.Hour)
			w := newWorld(t, regions, 1, tier.Options{})
			w.apart(down)
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
			if st := w.nodes[0].Stats(); !st.Regions[0].Away || st.Capped == 0 || st.Lag < 2*time.Second || st.Regions[0].Unanswered == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// The bound holds whatever happens between regions, and to their stores, meanwhile:
// what a store lost can be admitted once more.
func TestTheoremRegionsUnderFaults(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		for seed := range drawn(t, 2, 30) {
			virtual(t, fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) {
				aligned(time.Minute)
				w := newWorld(t, 3, 2, tier.Options{NodeTTL: time.Minute})
				w.far(20 * time.Millisecond)
				l := compiled(t, weir.PerMinute(3000, a), func(l *weir.Limit) {
					eventual(200)(l)
					l.Consistency.OnStoreError = weir.OnErrorDeny
				})
				load := newLoad(w.fleet, l)
				load.allow(200)
				r := rand.New(rand.NewPCG(seed, 1))
				stop := time.Now().Add(50 * time.Second)
				w.Cleanup(func() { w.apart(none) })
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
func TestRegionsAreToldOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		w := newWorld(t, 2, 1, tier.Options{})
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
		// The other may think that it was more, by what was fetched and given back.
		left := (&fleet{T: t, shared: w.stores[1]}).left("k", l)
		if left > 10_000-spent || left < 10_000-spent-30 || again.n < 20 {
			t.Errorf("%d are left of 10000 of which %d were spent; %d calls were repeated", left, spent, again.n)
		}
	})
}

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

// A region whose store is lost and comes back empty admits at most what the store
// lost once more; what others had told it they tell it again.
func TestRegionLosesItsStore(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const over = 60
		empty := memory.New(memory.Options{MaxBytes: 16 << 20})
		t.Cleanup(func() { empty.Close() })
		w := newWorld(t, 3, 1, tier.Options{})
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

// replaced is a store that another takes the place of.
type replaced struct {
	weir.Store
	by   weir.Store
	lost atomic.Bool
}

func (r *replaced) Take(ctx context.Context, ops []weir.Op) error {
	if r.lost.Load() {
		return r.by.Take(ctx, ops)
	}
	return r.Store.Take(ctx, ops)
}

// Regions whose clocks differ count by windows of their own, each within the bound.
func TestRegionsWithOtherClocks(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second} {
		virtual(t, ahead.String(), func(t *testing.T) {
			aligned(time.Minute)
			skewed := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().Add(ahead).UnixMicro() }})
			t.Cleanup(func() { skewed.Close() })
			w := newWorld(t, 2, 1, tier.Options{})
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
func TestRegionsWhoseClockIsSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 5))
	for run := range 6 {
		virtual(t, fmt.Sprint(run), func(t *testing.T) {
			aligned(time.Minute)
			var ahead atomic.Int64
			stepping := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() + ahead.Load() }})
			t.Cleanup(func() { stepping.Close() })
			w := newWorld(t, 2, 1, tier.Options{})
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

// What cannot be counted in several regions says so, and what to do.
func TestCheckRegions(t *testing.T) {
	for want, l := range map[string]*weir.Limit{
		"":                         {Algorithm: algorithm.SlidingWindow, Count: 100},
		"consistency strict":       {Algorithm: algorithm.SlidingWindow, Count: 100, Consistency: weir.Consistency{Mode: weir.ConsistencyStrict}},
		"consistency leased":       {Algorithm: algorithm.TokenBucket, Count: 100, Consistency: weir.Consistency{Mode: weir.ConsistencyLeased}},
		"sliding_log cannot":       {Algorithm: algorithm.SlidingLog, Count: 100},
		"concurrency cannot":       {Algorithm: algorithm.Concurrency, Count: 100},
		"first request":            {Algorithm: algorithm.FixedWindow, Count: 100, Params: weir.Params{Anchor: weir.AnchorFirst}},
		"penalizing":               {Algorithm: algorithm.FixedWindow, Count: 100, Mode: weir.Mode{Penalize: true}},
		"max_overshoot of 1 units": {Algorithm: algorithm.FixedWindow, Count: 10},
		"at least 4":               {Algorithm: algorithm.SlidingWindow, Count: 40},
	} {
		l.Period = time.Minute
		err := tier.CheckRegions(compiled(t, l, nil), 3)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		l.Consistency.Mode = weir.ConsistencyLocal
		if err := tier.CheckRegions(l, 3); err != nil {
			t.Errorf("local: %v", err)
		}
	}
}

// Names of regions are checked.
func TestRegionOptions(t *testing.T) {
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer local.Close()
	for want, opt := range map[string]tier.Options{
		"without other regions": {Region: "a"},
		"this one is not":       {Peers: []tier.Peer{{Name: "b", Store: local}}},
		"named twice":           {Region: "a", Peers: []tier.Peer{{Name: "a", Store: local}}},
		"without a name":        {Region: "a", Peers: []tier.Peer{{Store: local}}},
	} {
		opt.Local = local
		s, err := tier.New(local, opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			s.Close()
		}
	}
}

// Many nodes of a region that tell of one key at once do so by turns.
func TestRegionsTellByTurns(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		w := newWorld(t, 2, 6, tier.Options{})
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

// What is not leased counts for other regions too: what is kept for priorities, costs
// that were incurred, units that are given back.
func TestRegionsCountEveryVerb(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		w := newWorld(t, 2, 1, tier.Options{})
		l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), eventual(50))
		few := compiled(t, weir.PerHour(10, algorithm.FixedWindow), strict)
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
		take(weir.Op{Key: "k", Limit: l, Cost: 20, Reserve: 100})
		there(980)
		take(weir.Op{Key: "k", Limit: l, Cost: 30, Role: weir.Always, Verb: weir.Force})
		there(950)
		for range 20 {
			take(weir.Op{Key: "k", Limit: l, Cost: 1, Reserve: 100}, weir.Op{Key: "k", Limit: few, Cost: 1})
		}
		there(940)
		refunded := []weir.Op{{Key: "k", Limit: l, Cost: 10, Reserve: 100}}
		if err := w.nodes[0].Take(context.Background(), refunded); err != nil {
			t.Fatal(err)
		}
		there(930)
		take(refunded[0].Undo(10))
		there(930) // what was told is not taken back, but counts for the next
		take(weir.Op{Key: "k", Limit: l, Cost: 10, Reserve: 100})
		there(930)

		w.apart(down)
		passed := int64(0)
		for range 500 {
			d := take(weir.Op{Key: "k", Limit: l, Cost: 1, Reserve: 100})
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
func TestRegionsForget(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		a, b := memory.New(memory.Options{MaxBytes: 1 << 20}), memory.New(memory.Options{MaxBytes: 1 << 20})
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		s, err := tier.New(a, tier.Options{Local: local, Region: "a", Peers: []tier.Peer{{Name: "b", Store: b}}})
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
func TestRegionsRefuseLargeCosts(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			w := newWorld(t, 3, 1, tier.Options{})
			l := compiled(t, weir.PerHour(1000, a), eventual(100))
			most := int64(50)
			if a != algorithm.FixedWindow {
				most = 25
			}
			for _, several := range []bool{false, true} {
				for cost := most - 1; cost <= most+2; cost++ {
					ops := []weir.Op{{Key: fmt.Sprint("k", several, cost), Limit: l, Cost: cost}}
					if several {
						ops = append(ops, weir.Op{Key: fmt.Sprint("j", cost), Limit: l, Cost: cost})
					}
					if err := w.nodes[0].Take(context.Background(), ops); err != nil {
						t.Fatal(err)
					}
					if d := ops[0].Decision; d.Allowed() != (cost <= most) || !d.Allowed() && d.RetryAfter != weir.Never {
						t.Errorf("a cost of %d of %d, several %v: %s", cost, most, several, d)
					}
					if err := tier.CheckRegionsCost(l, 3, cost); (err == nil) != (cost <= most) {
						t.Errorf("a cost of %d of %d: %v", cost, most, err)
					}
				}
			}
			// One that is refused since others were not told of others passes later.
			w.apart(down)
			for range 2 {
				w.take(w.nodes[0], "l", l, most/2+1)
			}
			if d := w.take(w.nodes[0], "l", l, most/2+1); d.Allowed() || d.RetryAfter == weir.Never {
				t.Errorf("others do not know yet: %s", d)
			}
		})
	}
}
