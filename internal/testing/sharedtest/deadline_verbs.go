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

// usedUp are limits of every mode that decide by on_store_error: allow, and of each
// what its requests are: with bans, penalties, soft and shadow limits, and permits.
func usedUp(t testing.TB) (all []*weir.Limit) {
	add := func(l *weir.Limit, m params.ConsistencyMode) {
		l.Name = fmt.Sprint(m, " ", l.Algorithm.Name(), " ", len(all))
		l.Consistency.Mode, l.Consistency.OnStoreError, l.Consistency.DenyCache = m, params.OnErrorAllow, params.DenyCacheOff
		all = append(all, compiled(t, l, nil))
	}
	add(weir.PerDay(60, algorithm.FixedWindow), params.ConsistencyStrict)
	add(weir.PerDay(60, algorithm.SlidingLog), params.ConsistencyStrict)
	add(weir.PerDay(60, algorithm.FixedWindow), params.ConsistencyLeased)
	add(weir.PerDay(60, algorithm.SlidingWindow), params.ConsistencyLeased)
	add(weir.PerDay(60, algorithm.FixedWindow), params.ConsistencyEventual)
	add(&weir.Limit{Algorithm: algorithm.Concurrency, Count: 60, Period: 10 * time.Hour}, params.ConsistencyStrict)
	add(&weir.Limit{Algorithm: algorithm.Concurrency, Count: 60, Period: 10 * time.Hour}, params.ConsistencyLeased)
	banned := weir.PerDay(60, algorithm.FixedWindow)
	banned.Ban = &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 1 << 20, Period: time.Hour}
	add(banned, params.ConsistencyStrict)
	penal := weir.PerDay(60, algorithm.FixedWindow)
	penal.Penalize = true
	add(penal, params.ConsistencyStrict)
	return all
}

// Callers with deadlines of every kind, whatever they ask: spends, looks, incurred
// costs, requests with bans and penalties, permits, and units that are refunded by a
// mark. Where one request needs several servers, one after the other, it may take
// longer than the budget, and no caller who leaves makes a failure of that.
func testVerbDeadlines(t *testing.T, newNode New) {
	for seed := range drawn(t, 2, 200) {
		for _, kind := range []string{"one server", "prompt", "several servers", "few calls at a time"} {
			virtual(t, fmt.Sprint(kind, " ", seed), func(t *testing.T) {
				opt := Options{Prompt: kind != "one server"}
				if kind == "few calls at a time" {
					opt.MaxInFlight = 3
				}
				if kind == "several servers" {
					opt.Servers = 3
				}
				f := newFleet(t, newNode, 2, opt)
				f.shared.delay.Store(int64(time.Millisecond))
				ls := usedUp(t)
				if kind == "several servers" {
					// All calls of a request have one budget, that for leases too.
					ls = []*weir.Limit{ls[0], ls[1], ls[5], ls[7], ls[8]}
				}
				everyVerb(t, f, ls, seed)
			})
		}
	}
}

// everyVerb uses limits up and then has impatient callers ask, look, incur and give
// back. Of each limit no more passes than its count and what was refunded, nothing is
// decided by policy, and no call counts as failed.
func everyVerb(t *testing.T, f *fleet, ls []*weir.Limit, seed uint64) {
	t.Helper()
	var ids, left atomic.Int64
	mark := settled(t)
	request := func(dst []weir.Op, i int, v weir.Verb) []weir.Op {
		return ls[i].Append(dst, fmt.Sprint(i, " k"), 1, &weir.Request{Verb: v, Lease: fmt.Sprint("lease ", ids.Add(1))})
	}
	admitted, back := make([]atomic.Int64, len(ls)), make([]atomic.Int64, len(ls))
	// note counts what passed and returns what gives it back, nil if nothing did.
	note := func(ops []weir.Op) *held {
		h := &held{id: fmt.Sprint("settled ", ids.Add(1))}
		for k := range ops {
			o := &ops[k]
			if i := indexOf(ls, o.Limit); i >= 0 && o.Verb == weir.Spend && o.Charged && weir.Fold(ops).Allowed() {
				admitted[i].Add(1)
				h.back = append(h.back, o.Undo(1))
			}
		}
		if len(h.back) == 0 {
			return nil
		}
		return h
	}
	var first []*held
	for i := range ls {
		for n := range 150 {
			ops := request(nil, i, weir.Spend)
			if err := f.nodes[n%2].Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if h := note(ops); h != nil {
				first = append(first, h)
			}
		}
	}
	const callers = 24
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			var mine []*held
			for i := c; i < len(first); i += callers {
				mine = append(mine, first[i])
			}
			for range 60 {
				ctx, cancel := impatient(rnd, 20*time.Millisecond, time.Millisecond)
				s := f.nodes[rnd.IntN(len(f.nodes))]
				var ops []weir.Op
				switch x := rnd.IntN(12); {
				case x == 0 && len(mine) > 0:
					j := rnd.IntN(len(mine))
					h := mine[j]
					mine = append(mine[:j], mine[j+1:]...)
					for _, o := range h.back {
						back[indexOf(ls, o.Limit)].Add(1)
					}
					ops = append([]weir.Op{{Key: h.id, Limit: mark, Cost: 1}}, h.back...)
				default:
					v := []weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Peek, weir.Force}[rnd.IntN(5)]
					for _, i := range rnd.Perm(len(ls))[:1+rnd.IntN(3)] {
						if v == weir.Force && ls[i].Traits()&weir.Leases != 0 {
							continue
						}
						ops = request(ops, i, v)
					}
				}
				if len(ops) == 0 {
					cancel()
					continue
				}
				err := s.Take(ctx, ops)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
					left.Add(1)
				case err != nil:
					t.Errorf("%v", err)
				default:
					if h := note(ops); h != nil && h.back[0].Limit != mark {
						mine = append(mine, h)
					}
					for k := range ops {
						if g := ops[k].Decision.Guarantee(); ops[k].Decision.Limit != nil && g.Degraded {
							t.Errorf("%s: decided by policy: %s", ops[k].Limit.Name, g)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	for i, l := range ls {
		most := l.Count + back[i].Load()
		if l.Consistency.Mode == params.ConsistencyEventual {
			most += l.Overshoot()
		}
		if n := admitted[i].Load(); n > most || n < l.Count*3/4 {
			t.Errorf("%s: %d admitted, at most %d can be", l.Name, n, most)
		}
	}
	for i, s := range f.nodes {
		if st := s.Stats(); st.BreakerOpen || st.Failed != 0 || st.Degraded != 0 {
			t.Errorf("node %d: away %v, %d of %d calls failed, %d decisions by policy", i, st.BreakerOpen, st.Failed, st.Calls, st.Degraded)
		}
	}
	if left.Load() == 0 {
		t.Error("no caller left: nothing was tested")
	}
}
