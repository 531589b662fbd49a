package sharedtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A node that is asked alone admits what one store does, to the last unit, from its first request
// on, however many nodes there are: of each cost, by one op or several, and a look says before
// what a spend will say.
func testWholeLimit(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, x := range []struct {
			count, burst int64
			period       time.Duration
		}{
			{10, 0, time.Minute}, {20, 0, time.Minute}, {30, 0, time.Minute}, {100, 0, time.Minute}, {600, 0, time.Minute}, {1000, 0, time.Hour}, {5000, 0, time.Hour},
			{10, 0, time.Second}, {100, 0, time.Second}, {50, 0, 24 * time.Hour}, {10, 100, time.Minute}, {60, 10, time.Minute}, {1000, 40, time.Second},
		} {
			switch isBucket := a.Traits()&weir.Refills != 0; {
			case x.burst > 0 && !isBucket:
				continue
			case a == algorithm.SlidingSubwindows && x.period == time.Second:
				continue // units of a sub-window that is over are given back within 25 ms, as long as two of it
			}
			for _, nodes := range []int{1, 2, 4} {
				if testing.Short() && nodes == 4 {
					continue
				}
				virtual(t, fmt.Sprintf("%s, %d in %s, burst %d, %d nodes", a.Name(), x.count, x.period, x.burst, nodes), func(t *testing.T) {
					f := newFleet(t, newNode, nodes, Options{})
					for _, cost := range []int64{1, 2, 3, 10, 40} {
						l := compiled(t, &weir.Limit{Algorithm: a, Count: x.count, Period: x.period, Burst: x.burst}, leased)
						all := compiled(t, weir.PerMinute(100_000, algorithm.FixedWindow), leased)
						if cost == 1 {
							aligned(min(x.period, 10*time.Second))
						}
						cells, key := make([]int64, l.Cells), fmt.Sprint(cost)
						for i := range l.Burst/cost + 3 {
							now := time.Now().UnixMicro()
							want := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: cost}).Allowed()
							look := []weir.Op{{Key: key, Limit: l, Cost: cost, Verb: weir.Peek}}
							ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
							if i%2 == 1 {
								ops = append(ops, weir.Op{Key: "all", Limit: all, Cost: 1})
							}
							for _, ops := range [][]weir.Op{look, ops} {
								if err := f.nodes[0].Take(context.Background(), ops); err != nil {
									t.Fatal(err)
								}
							}
							if look[0].Decision.Allowed() != want || weir.Fold(ops).Allowed() != want {
								t.Fatalf("request %d of %d: %v, a look %v, one store allows it: %v", i+1, cost, ops[0].Decision, look[0].Decision, want)
							}
							time.Sleep(100 * time.Microsecond)
						}
					}
				})
			}
		}
	}
}

// Where very many ask for a cold key at once, none of them waits for one fetch after the other
// until its budget is over: the store decides those that the first ones do not serve.
func testManyAtOnce(t *testing.T, newNode New) {
	for _, a := range lenders() {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 2, Options{Timeout: 20 * time.Millisecond})
			f.shared.delay.Store(int64(2 * time.Millisecond))
			l := compiled(t, weir.PerHour(100, a), leased)
			aligned(time.Minute)
			var all sync.WaitGroup
			var admitted, degraded atomic.Int64
			for i := range 400 {
				all.Go(func() {
					d := f.take(f.nodes[i%2], "k", l, 1)
					if d.Allowed() {
						admitted.Add(1)
					}
					if d.Guarantee().Degraded {
						degraded.Add(1)
					}
				})
			}
			all.Wait()
			if degraded.Load() > 0 || admitted.Load() > 100 {
				t.Errorf("%d admitted of 100, %d decisions without the store", admitted.Load(), degraded.Load())
			}
		})
	}
}
