package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// 64 goroutines on four nodes, on limits of every mode at once: none is overdrawn,
// and when all is returned the store has counted what passed.
func testManyGoroutines(t *testing.T, newNode New) {
	f := newFleet(t, newNode, 4, Options{Timeout: 10 * time.Second})
	hourly := func(n int64, a weir.Algorithm, m params.ConsistencyMode) *weir.Limit {
		l := weir.PerHour(n, a)
		l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = m.String()+a.Name(), m, 50
		return compiled(t, l, nil)
	}
	ls := []*weir.Limit{
		hourly(2000, algorithm.FixedWindow, params.ConsistencyLeased),
		hourly(2000, algorithm.SlidingWindow, params.ConsistencyLeased),
		hourly(2000, algorithm.SlidingSubwindows, params.ConsistencyEventual),
		hourly(2000, algorithm.FixedWindow, params.ConsistencyEventual),
		hourly(2000, algorithm.SlidingLog, params.ConsistencyStrict),
	}
	var passed [5]atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			s := f.nodes[g%4]
			for n := range 300 {
				i := (g + n) % len(ls)
				if n%7 == 0 {
					// Several limits at once.
					j := (i + 1) % len(ls)
					ops := []weir.Op{{Key: "k", Limit: ls[i], Cost: 1}, {Key: "k", Limit: ls[j], Cost: 1}}
					if err := s.Take(context.Background(), ops); err != nil {
						t.Error(err)
						return
					}
					if ops[0].Charged != ops[1].Charged {
						t.Errorf("charged in part: %+v", ops)
					}
					if ops[0].Charged {
						passed[i].Add(1)
						passed[j].Add(1)
					}
					continue
				}
				if f.take(s, "k", ls[i], 1).Allowed() {
					passed[i].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range f.nodes {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var stranded int64 // of the sliding window: what the nodes did not return
	for _, s := range f.nodes {
		stranded += int64(s.Stats().Stranded)
	}
	for i, l := range ls {
		n, most := passed[i].Load(), l.Count
		if l.Consistency.Mode == params.ConsistencyEventual {
			most += 50
		}
		want := max(l.Count-n, 0)
		if i == 1 {
			want -= stranded
		}
		if left := f.left("k", l); n > most || n < l.Count*9/10 || left != want {
			t.Errorf("%s: %d passed of %d, and %d are left, want %d", l.Name, n, l.Count, left, want)
		}
	}
}

// whatever nodes admit together in a period is no more than the
// number that each decision states, in each consistency; of a limit that each node
// counts alone, and of a sketch, which no nodes share, what one node admits. Nothing is called exact whose number is above
// its count.
func testAtMost(t *testing.T, newNode New) {
	consistencies := map[string]func(*weir.Limit){
		"strict":   strict,
		"leased":   func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLeased },
		"loose":    func(l *weir.Limit) { l.Consistency.Mode, l.Consistency.Loose = params.ConsistencyLeased, true },
		"default":  func(*weir.Limit) {},
		"eventual": eventual(7),
		"local":    func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLocal },
	}
	for _, a := range algorithm.All {
		if a.Name() == algorithm.Concurrency.Name() {
			continue // it bounds what is held at once
		}
		if testing.Short() && !slices.Contains(lenders(), a) {
			continue
		}
		for word, set := range consistencies {
			for seed := range drawn(t, 1, 20) {
				virtual(t, fmt.Sprint(a.Name(), ", ", word, " ", seed), func(t *testing.T) {
					l := weir.PerMinute([]int64{5, 60, 1000}[seed%3], a)
					if testing.Short() {
						l.Period = 12 * time.Second
					}
					if a.Name() == algorithm.Approximate.Name() {
						l.Sketch = params.SketchOptions{Width: 1024, Depth: 2, BloomBits: 1 << 12, BloomHashes: 2}
					}
					set(l)
					if l.Compile() != nil {
						t.Skip("the algorithm does not count so")
					}
					f := newFleet(t, newNode, 3, Options{})
					raid(f, l, rand.New(rand.NewPCG(seed, 3)))
				})
			}
		}
	}
}

// A hundred a minute by address, on two nodes that fetch units ahead: clients that
// spend all they can before an edge and after it, and whatever becomes free, get a
// hundred in no 60 seconds more, whatever is refunded meanwhile.
func testNeverMore(t *testing.T, newNode New) {
	for _, c := range []struct {
		count  int64
		period time.Duration
	}{{100, time.Minute}, {500, time.Second}, {20, 5 * time.Second}} {
		for seed := range drawn(t, 2, 30) {
			l := &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: c.count, Period: c.period}
			virtual(t, l.Period.String(), func(t *testing.T) { attackNodes(t, newNode, compiled(t, l, leased), seed) })
		}
	}
}

// raid spends what is left on the nodes of f, in turns and at edges.
func raid(f *fleet, l *weir.Limit, r *rand.Rand) {
	type spend struct {
		at, units int64
	}
	// sums are of what was spent within the last period.
	spent, sums, admitted := make([][]spend, len(f.nodes)), make([]int64, len(f.nodes)), int64(0)
	least := make([]int64, len(f.nodes))
	for i := range least {
		least[i] = weir.Unbounded
	}
	most := make([]int64, len(f.nodes))
	stop := time.Now().Add(5 * l.Period)
	for steps := 0; steps < 4000 && time.Now().Before(stop); steps++ {
		at := r.IntN(len(f.nodes))
		cost := int64(1)
		if r.IntN(4) == 0 {
			cost = r.Int64N(l.Count) + 1
		}
		d := f.take(f.nodes[at], "k", l, cost)
		g := d.Guarantee()
		if g.Degraded {
			f.Fatalf("the store answers, and the decision is degraded: %s", d)
		}
		if g.Exact && g.AtMost > l.Count {
			f.Fatalf("exact, and %s", g)
		}
		now := time.Now()
		scope := 0
		if g.Source == weir.FromLocal || g.Source == weir.FromSketch {
			scope = at
		}
		least[scope] = min(least[scope], g.AtMost)
		if d.Allowed() {
			admitted += cost
			us := now.UnixMicro() // the resolution of stores
			spent[scope] = append(spent[scope], spend{us, cost})
			sums[scope] += cost
			for spent[scope][0].at <= us-micros.Of(l.Period) {
				sums[scope] -= spent[scope][0].units
				spent[scope] = spent[scope][1:]
			}
			most[scope] = max(most[scope], sums[scope])
			continue
		}
		switch r.IntN(5) {
		case 0: // another node may have units
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(l.Period / 4))))
		case 2: // the next edge
			time.Sleep(now.Truncate(l.Period).Add(l.Period).Sub(now))
		case 3:
			time.Sleep(now.Truncate(l.Period).Add(l.Period).Sub(now) - time.Duration(r.Int64N(int64(time.Second))))
		case 4:
			if d.RetryAfter > 0 {
				time.Sleep(min(d.RetryAfter, l.Period))
			}
		}
	}
	if admitted < l.Count {
		f.Errorf("only %d were admitted", admitted)
	}
	for i := range most {
		if most[i] > least[i] {
			f.Errorf("%d in a period, and decisions say at most %d", most[i], least[i])
		}
	}
}

func attackNodes(t *testing.T, newNode New, l *weir.Limit, seed uint64) {
	f := newFleet(t, newNode, 2, Options{})
	f.shared.delay.Store(int64(time.Millisecond))
	r := rand.New(rand.NewPCG(seed, 71))
	type taking struct {
		at time.Time
		op weir.Op
	}
	var took []taking
	var most, sum, passed int64
	refunds := seed%2 == 1
	take := func() bool {
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
		if err := f.nodes[r.IntN(2)].Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		if !ops[0].Charged {
			return false
		}
		if ops[0].Decision.Guarantee().Degraded {
			t.Fatalf("decided without the store: %v", ops[0].Decision)
		}
		now := time.Now()
		took = append(took, taking{now, ops[0]})
		passed++
		sum++
		for now.Sub(took[0].at) >= l.Period {
			if took[0].op.Charged {
				sum--
			}
			took = took[1:]
		}
		most = max(most, sum)
		return true
	}
	all := func() {
		for range l.Count + 2 {
			if !take() && r.IntN(4) == 0 {
				return
			}
		}
	}
	refund := func() {
		if !refunds || len(took) == 0 {
			return
		}
		// Not used after all.
		if x := &took[r.IntN(len(took))]; x.op.Charged {
			if err := f.nodes[r.IntN(2)].Take(context.Background(), []weir.Op{x.op.Undo(1)}); err != nil {
				t.Fatal(err)
			}
			x.op.Charged = false
			sum--
		}
	}
	nap := func(most time.Duration) { time.Sleep(time.Duration(1 + r.Int64N(int64(most)))) }
	for range max(1, min(3, 10*time.Second/l.Period)) {
		aligned(l.Period)
		time.Sleep(l.Period - l.Period/time.Duration(20+r.IntN(200)))
		all()
		aligned(l.Period)
		all()
		for range 30 {
			nap(l.Period / 30)
			refund()
			all()
		}
		// What nodes hold is spent as late as they let.
		time.Sleep(2 * l.Period)
		for range 30 {
			take()
			nap(l.Period / 150)
		}
		nap(l.Period / 60)
		all()
		time.Sleep(l.Period * 3 / 4)
		for range 200 {
			nap(l.Period / 150)
			refund()
			all()
		}
	}
	if most > l.Count || most < l.Count*8/10 {
		t.Errorf("%d units in one period of a limit of %d, %d in all", most, l.Count, passed)
	}
}
