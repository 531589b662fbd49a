package tier_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/tier"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// 64 goroutines on four nodes, on limits of every mode at once: none is overdrawn,
// and when all is given back the store has counted what passed.
func TestManyGoroutinesInEveryMode(t *testing.T) {
	f := newFleet(t, 4, tier.Options{Timeout: 10 * time.Second})
	hourly := func(n int64, a weir.Algorithm, m weir.ConsistencyMode) *weir.Limit {
		l := weir.PerHour(n, a)
		l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = m.String()+a.Name(), m, 50
		return compiled(t, l, nil)
	}
	ls := []*weir.Limit{
		hourly(2000, algorithm.FixedWindow, weir.ConsistencyLeased),
		hourly(2000, algorithm.SlidingWindow, weir.ConsistencyLeased),
		hourly(2000, algorithm.SlidingSubwindows, weir.ConsistencyEventual),
		hourly(2000, algorithm.FixedWindow, weir.ConsistencyEventual),
		hourly(2000, algorithm.SlidingLog, weir.ConsistencyStrict),
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
	for i, l := range ls {
		n, most := passed[i].Load(), l.Count
		if l.Consistency.Mode == weir.ConsistencyEventual {
			most += 50
		}
		if left := f.left("k", l); n > most || n < l.Count*9/10 || left != max(l.Count-n, 0) {
			t.Errorf("%s: %d passed of %d, and %d are left", l.Name, n, l.Count, left)
		}
	}
}
