package sharedtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

func reloaded(t testing.TB, n int64, period time.Duration, burst int64, a weir.Algorithm, m params.ConsistencyMode) *weir.Limit {
	return compiled(t, &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: period, Burst: burst}, func(l *weir.Limit) {
		l.Consistency.Mode, l.Consistency.MaxOvershoot = m, max(l.Count/20, 4)
	})
}

// deaf is a store of which the answers to the next calls are lost, with the connection.
type deaf struct {
	weir.Store
	next atomic.Int64
}

func (s *deaf) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	if s.next.Load() > 0 {
		s.next.Add(-1)
		return errDown
	}
	return err
}

// A node that holds units when the rate is changed gives them back: what is left is what
// was left, less what passed.
func testReloadPrice(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 2, Options{})
			fast := reloaded(t, 10_000, time.Hour, 0, a, params.ConsistencyLeased)
			slow := reloaded(t, 1_000, time.Hour, 10_000, a, params.ConsistencyLeased)
			for range 7000 {
				f.take(f.nodes[0], "k", fast, 1)
			}
			held := f.nodes[0].Stats().LeaseUnits
			for _, s := range f.nodes {
				f.take(s, "k", slow, 1)
			}
			time.Sleep(3 * time.Second)
			if left := f.left("k", slow); left > 3000+5 || left < 2990 {
				t.Errorf("%d are left of 3000; %d were held", left, held)
			}
		})
	}
}

// Units that were charged before a reload go back as they are, whether the new limit was
// asked first or not.
func testReloadRefund(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		for _, asked := range []bool{false, true} {
			virtual(t, fmt.Sprint(a.Name(), ", asked ", asked), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{})
				slow := reloaded(t, 100, time.Hour, 100, a, params.ConsistencyStrict)
				fast := reloaded(t, 10_000, time.Hour, 100, a, params.ConsistencyStrict)
				spent := []weir.Op{{Key: "k", Limit: slow, Cost: 100}}
				if err := f.nodes[0].Take(context.Background(), spent); err != nil || !spent[0].Charged {
					t.Fatal(err, spent[0].Decision)
				}
				if asked {
					if d := f.take(f.nodes[0], "k", fast, 1); d.Allowed() {
						t.Fatalf("all is spent: %s", d)
					}
				}
				undo := spent[0].Undo(50)
				if err := f.nodes[0].Take(context.Background(), []weir.Op{undo}); err != nil {
					t.Fatal(err)
				}
				if left := f.left("k", fast); left != 50 {
					t.Errorf("%d are left, want 50", left)
				}
			})
		}
	}
}

// A fetch whose answer was lost before the rate of a bucket is lowered stays spent.
func testReloadLostFetch(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			const burst = 10_000
			f := newFleet(t, newNode, 1, Options{})
			f.shared.delay.Store(int64(time.Millisecond))
			deaf := &deaf{Store: f.shared.Store}
			f.shared.Store = deaf
			version := func(n int64) *weir.Limit {
				l := &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: time.Hour, Burst: burst}
				return compiled(t, l, leasedOr(params.OnErrorDeny))
			}
			used := int64(0)
			take := func(l *weir.Limit) bool {
				ok := f.take(f.nodes[0], "k", l, 1).Allowed()
				if ok {
					used++
				}
				return ok
			}
			fast, slow := version(10_000), version(2500)
			for range 3000 {
				take(fast)
			}
			begin := time.Now()
			deaf.next.Store(1)
			for deaf.next.Load() > 0 {
				take(fast)
			}
			time.Sleep(10 * time.Millisecond)
			for refused := 0; refused < 50; {
				if !take(slow) {
					refused++
					time.Sleep(20 * time.Millisecond)
				}
			}
			flowed := int64(time.Since(begin).Hours()*2500) + 1
			t.Logf("%d of the bucket used, %d flowed in", used, flowed)
			if used > burst+flowed || used < burst/2 {
				t.Errorf("%d of the bucket was used, and %d flowed in", used, flowed)
			}
		})
	}
}

// A limit that is changed goes on with what it holds, and a new count holds at
// once for what is fetched.
func testReloadLeases(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
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

// What is held under a limit that was changed is not spent for all of its time:
// within a second the new limit holds for all.
func testReloadLongLeases(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		s := f.nodes[0]
		hourly := func(count int64) *weir.Limit {
			return compiled(t, &weir.Limit{Name: "hourly", Algorithm: algorithm.FixedWindow, Count: count, Period: time.Hour}, leased)
		}
		was, is := hourly(1000), hourly(100)
		for range 5 {
			f.take(s, "k", was, 1)
			time.Sleep(3 * time.Second)
		}
		fetched := s.Stats().Fetched
		if n := s.Stats().LeaseUnits; n < 2 {
			t.Fatalf("%d units are held", n)
		}
		f.take(s, "k", is, 1)
		if n := s.Stats().Fetched; n != fetched {
			t.Errorf("%d fetches more at once", n-fetched)
		}
		time.Sleep(1200 * time.Millisecond)
		f.take(s, "k", is, 1)
		if n := s.Stats().Fetched; n != fetched+1 {
			t.Errorf("%d fetches more after a second", n-fetched)
		}
	})
}
