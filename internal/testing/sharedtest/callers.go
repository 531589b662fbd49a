package sharedtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// impatient returns a context as a caller may choose it: with a deadline from a
// microsecond to the budget, one that has passed, one of twice the round trip, or one
// that is canceled after such a time.
func impatient(rnd *rand.Rand, budget, trip time.Duration) (context.Context, context.CancelFunc) {
	wait := time.Duration(rnd.Int64N(int64(budget)))
	switch rnd.IntN(6) {
	case 0:
		wait = time.Microsecond
	case 1:
		wait = -time.Millisecond
	case 2:
		wait = 2 * trip
	case 3:
		wait = time.Duration(rnd.Int64N(int64(2 * trip)))
	case 4:
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(wait, cancel)
		return ctx, func() { stop.Stop(); cancel() }
	}
	return context.WithTimeout(context.Background(), wait)
}

// deadlineLimits are limits of every mode that decide by on_store_error: allow, and
// what each may admit above its count.
func deadlineLimits(t testing.TB, check func(*weir.Limit) error) (limits []*weir.Limit, over []int64) {
	add := func(l *weir.Limit, m params.ConsistencyMode, most int64) {
		if check != nil && check(l) != nil {
			return
		}
		l.Name = fmt.Sprint(m, " ", l.Algorithm.Name(), " ", len(limits))
		l.Consistency.Mode, l.Consistency.OnStoreError = m, params.OnErrorAllow
		limits, over = append(limits, compiled(t, l, nil)), append(over, most)
	}
	add(weir.PerDay(100, algorithm.FixedWindow), params.ConsistencyStrict, 0)
	add(weir.PerDay(100, algorithm.SlidingLog), params.ConsistencyStrict, 0)
	add(weir.PerDay(100, algorithm.FixedWindow), params.ConsistencyLeased, 0)
	add(weir.PerDay(100, algorithm.SlidingWindow), params.ConsistencyLeased, 0)
	eventual := weir.PerDay(100, algorithm.FixedWindow)
	add(eventual, params.ConsistencyEventual, eventual.Overshoot())
	add(&weir.Limit{Algorithm: algorithm.Concurrency, Count: 100, Period: time.Hour}, params.ConsistencyStrict, 0)
	add(&weir.Limit{Algorithm: algorithm.Concurrency, Count: 100, Period: time.Hour}, params.ConsistencyLeased, 0)
	return limits, over
}

// callersDeadlines offers used-up limits to nodes by callers with deadlines of every
// kind, alone and together, and expects that nothing more is admitted, that no
// decision is made by policy and that no call counts as failed. check, if it is not nil,
// says which limits the store cannot keep.
func callersDeadlines(t *testing.T, nodes []Node, check func(*weir.Limit) error, seed uint64, callers, asks int, budget, trip time.Duration) {
	t.Helper()
	limits, over := deadlineLimits(t, check)
	var failed []uint64 // at the start, as Memcached has no register of nodes
	for _, s := range nodes {
		failed = append(failed, s.Stats().Failed)
	}
	admitted := make([]atomic.Int64, len(limits))
	var ids atomic.Int64
	op := func(i int) weir.Op {
		// Of several servers each keeps some.
		o := weir.Op{Key: fmt.Sprint("k", i), Limit: limits[i], Cost: 1}
		if limits[i].Traits()&weir.Leases != 0 {
			o.ID = ids.Add(1)
		}
		return o
	}
	for i := range limits {
		for n := range 400 {
			ops := []weir.Op{op(i)}
			if err := nodes[n%2].Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if ops[0].Decision.Allowed() {
				admitted[i].Add(1)
			}
		}
	}
	// Refusals are remembered for a second: after it the store is asked again.
	for range 3 {
		time.Sleep(1100 * time.Millisecond)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(c)))
				for range asks {
					ctx, cancel := impatient(rnd, budget, trip)
					s, i := nodes[rnd.IntN(len(nodes))], rnd.IntN(len(limits))
					ops := []weir.Op{op(i)}
					if j := rnd.IntN(len(limits)); j != i && rnd.IntN(2) == 0 {
						ops = append(ops, op(j))
					}
					err := s.Take(ctx, ops)
					if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						t.Errorf("%v", err)
					}
					passed := err == nil && weir.Fold(ops).Allowed()
					for k := range ops {
						if o := &ops[k]; passed {
							admitted[indexOf(limits, o.Limit)].Add(1)
						}
						if g := ops[k].Decision.Guarantee(); err == nil && g.Degraded {
							t.Errorf("%s: decided by policy: %s", ops[k].Limit.Name, g)
						}
					}
					cancel()
				}
			})
		}
		wg.Wait()
	}
	for i, l := range limits {
		if n := admitted[i].Load(); n > l.Count+over[i] {
			t.Errorf("%s: %d admitted of %d", l.Name, n, l.Count+over[i])
		}
	}
	for i, s := range nodes {
		if st := s.Stats(); st.BreakerOpen || st.Failed != failed[i] || st.Degraded != 0 {
			t.Errorf("node %d: away %v, %d of %d calls failed, %d decisions by policy", i, st.BreakerOpen, st.Failed-failed[i], st.Calls, st.Degraded)
		}
	}
}
