package sharedtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// Whatever deadlines callers choose: the store answers, so it decides.
func testDeadlines(t *testing.T, newNode New) {
	for seed := range drawn(t, 3, 300) {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprintf("seed %d, prompt %v", seed, prompt), func(t *testing.T) {
				f := newFleet(t, newNode, 2, Options{Prompt: prompt})
				trip := time.Millisecond
				f.shared.delay.Store(int64(trip))
				callersDeadlines(t, f.nodes, nil, seed, 8, 100, 20*time.Millisecond, trip)
			})
		}
	}
}

// A caller whose deadline ends before the store's time is over gets its own error, and
// no decision: it does not choose the policy of a limit.
func testCallerError(t *testing.T, newNode New) {
	for _, prompt := range []bool{false, true} {
		virtual(t, fmt.Sprint("prompt ", prompt), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{Prompt: prompt})
			l := compiled(t, weir.PerHour(1000, algorithm.TokenBucket), onError(params.OnErrorAllow))
			f.shared.set(stall)
			for _, two := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
				if two {
					ops = append(ops, weir.Op{Key: "j", Limit: l, Cost: 1})
				}
				f.within(10*time.Millisecond, func() {
					if err := f.nodes[0].Take(ctx, ops); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%+v, %v", ops[0].Decision, err)
					}
				})
				cancel()
				ctx, cancel = context.WithCancel(context.Background())
				cancel()
				if err := f.nodes[0].Take(ctx, ops); !errors.Is(err, context.Canceled) {
					t.Errorf("canceled: %v", err)
				}
			}
			if st := f.nodes[0].Stats(); st.Degraded != 0 {
				t.Errorf("%d decisions by policy", st.Degraded)
			}
		})
	}
}

// A stalled store is found by the calls that callers have left:
// each is judged by the store's own budget.
func testDeadlinesInStall(t *testing.T, newNode New) {
	for _, x := range []fault{stall, wedged} {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprintf("fault %d, prompt %v", x, prompt), func(t *testing.T) {
				if x == wedged && prompt {
					t.Skip("a store that is prompt is not wedged")
				}
				f := newFleet(t, newNode, 1, Options{Prompt: prompt})
				defer f.shared.mend()
				l := compiled(t, weir.PerHour(1000, algorithm.TokenBucket), strict)
				f.shared.set(x)
				for n := range 5 {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
					f.within(5*time.Millisecond, func() {
						if _, err := f.nodes[0].TakeOne(ctx, fmt.Sprint(n), l, 1); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("%v", err)
						}
					})
					cancel()
					time.Sleep(15 * time.Millisecond) // or what is silent is so once
				}
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				if st := f.nodes[0].Stats(); !st.BreakerOpen || st.Late != 5 {
					t.Errorf("away %v, %d calls were late", st.BreakerOpen, st.Late)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if d, err := f.nodes[0].TakeOne(ctx, "k", l, 1); err != nil || !d.Guarantee().Degraded {
					t.Errorf("while the store is away: %+v, %v", d, err)
				}
			})
		}
	}
}

// A store that stalls costs no more goroutines than calls may be under way, and
// no decision more than its budget.
func testStallBound(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{MaxInFlight: 8})
		l := compiled(t, weir.PerHour(1000, algorithm.TokenBucket), strict)
		f.shared.set(wedged)
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				f.within(20*time.Millisecond, func() { f.take(f.nodes[0], fmt.Sprint(i), l, 1) })
			})
		}
		wg.Wait()
		synctest.Wait() // those that are done have ended
		if n := runtime.NumGoroutine() - before; n > 8+1 {
			t.Errorf("%d goroutines are left", n)
		}
		f.shared.mend()
	})
}

// A request that takes several calls, one after the other, has one budget.
func testOneBudget(t *testing.T, newNode New) {
	for _, prompt := range []bool{false, true} {
		virtual(t, fmt.Sprint("prompt ", prompt), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{Prompt: prompt})
			f.shared.delay.Store(int64(15 * time.Millisecond))
			if prompt {
				f.shared.delay.Store(0)
				f.shared.set(stall)
			}
			limit := func(m params.ConsistencyMode) *weir.Limit {
				l := weir.PerHour(1000, algorithm.FixedWindow)
				l.Name, l.Consistency.Mode = m.String(), m
				return compiled(t, l, nil)
			}
			a, b, c := limit(params.ConsistencyLeased), limit(params.ConsistencyEventual), limit(params.ConsistencyStrict)
			for _, ls := range [][]*weir.Limit{{a, b, c}, {a, c}, {b, c}, {b}} {
				ops := make([]weir.Op, len(ls))
				for i, l := range ls {
					ops[i] = weir.Op{Key: fmt.Sprint("k", len(ls), l.Name), Limit: l, Cost: 1}
				}
				ctx, cancel := context.WithTimeout(context.Background(), 40*time.Millisecond)
				f.within(20*time.Millisecond, func() {
					if err := f.nodes[0].Take(ctx, ops); err != nil {
						t.Error(err)
					}
				})
				cancel()
			}
		})
	}
}
