package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// TestFamilyOwedUnderFaults charges two keys at once with costs that were incurred, and gives
// a part back, each by one call that nobody repeats, while servers stand still for 5 to 400
// ms, lose their connections, and fail over: each key is charged exactly what it is said to be.
func TestFamilyOwedUnderFaults(t *testing.T) {
	each := 400
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		each = 2000
	case testing.Short():
		each = 100
	}
	for _, where := range []struct {
		name string
		open func(*testing.T) *storm
	}{
		{"single", func(t *testing.T) *storm { return revived(t, "redis", 1) }},
		{"sentinel", watched},
		{"cluster", slotted},
		{"ring", func(t *testing.T) *storm { return revived(t, "redis+ring", 2) }},
	} {
		for _, c := range []params.Consistency{
			{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorDeny},
			{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorLocal},
			{Mode: params.ConsistencyLeased, OnStoreError: params.OnErrorDeny},
			{Mode: params.ConsistencyLeased, OnStoreError: params.OnErrorLocal},
		} {
			t.Run(fmt.Sprint(where.name, " ", c.Mode, " ", c.OnStoreError), func(t *testing.T) {
				t.Parallel()
				owedUnderFaults(t, where.open(t), c, each)
			})
		}
	}
}

// owed is what two keys are to be charged; nothing is said of them where a server of a ring
// has counted for another, or may have got back what that had. What had no answer at once may
// have been charged to another as well: then it is not lost, and is not here.
type owed struct {
	keys            [2]string
	cost, elsewhere [2]int64
	moved           bool
}

func owedUnderFaults(t *testing.T, m *storm, c params.Consistency, each int) {
	const workers, leastFaults, before = 8, 6, 300
	l := &weir.Limit{Name: "owed", Algorithm: algorithm.FixedWindow, Count: 10_000, Period: 24 * time.Hour,
		Params: params.Params{Anchor: params.AnchorFirst}, Consistency: c}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var nodes [2]*shared.Store
	var stores []*redis.Store
	for i := range nodes {
		store := m.store()
		stores = append(stores, store)
		nodes[i] = m.node(store)
	}
	seed := seeds.Of(t)
	faults, calm := m.rage(seed)
	var next, degraded atomic.Int64
	var mu sync.Mutex
	var all []owed
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			take := func(x *owed, v weir.Verb, cost int64) bool {
				ops := make([]weir.Op, 2)
				for k, key := range x.keys {
					ops[k] = weir.Op{Key: key, Limit: l, Cost: cost, Role: weir.Always, Verb: v}
				}
				err := nodes[r.IntN(2)].Take(ctx, ops)
				if err != nil || v == weir.Refund && cost > 0 && !(ops[0].Charged && ops[1].Charged) {
					t.Errorf("%v: %v, %+v", v, err, ops)
				}
				well := true
				for k, o := range ops {
					isDegraded := o.Decision.Degraded()
					well = well && o.Charged && !isDegraded
					x.moved = x.moved || o.Decision.Guarantee().Source == weir.FromSuccessor || m.isRing && isDegraded && v == weir.Refund
					switch {
					case v == weir.Refund:
						x.cost[k] -= cost
					case o.Charged:
						x.cost[k] += cost
						if m.isRing && isDegraded {
							x.elsewhere[k] += cost
						}
					}
				}
				return well
			}
			for i := next.Add(1); i <= int64(each) || faults.Load() < leastFaults; i = next.Add(1) {
				var x owed
				for try := 0; ; try++ { // keys that nobody has used
					x = owed{keys: [2]string{fmt.Sprintf("%d a, try %d", i, try), fmt.Sprintf("%d b, try %d", i, try)}}
					if take(&x, weir.Spend, before) {
						break
					}
					time.Sleep(2 * time.Millisecond)
				}
				for range 1 + r.IntN(3) {
					cost, back := 1+r.Int64N(200), 1+r.Int64N(40)
					for _, o := range []struct {
						v    weir.Verb
						cost int64
					}{{weir.Force, cost}, {weir.Refund, back}} {
						if !take(&x, o.v, o.cost) {
							degraded.Add(1)
						}
					}
				}
				mu.Lock()
				all = append(all, x)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	calm()
	for i, n := range nodes {
		// What a node that is closed cannot tell a store that is out is lost, and what it owes
		// beyond a moment.
		servertest.Await(t, "the store to answer", func() bool { return !n.Stats().BreakerOpen && n.Stats().Debts == 0 })
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		// A call of a server of a ring waits until its keys are there again, which the end of
		// the node may come before.
		if st := n.Stats(); st.DebtLost != 0 || c.Mode == params.ConsistencyStrict && !m.isRing && st.Stranded != 0 {
			t.Errorf("%+v", st)
		}
		stores[i].Close()
	}
	s, moved := m.store(), 0
	defer s.Close()
	for i, x := range all {
		if x.moved {
			moved++
			continue
		}
		for k, key := range x.keys {
			want := x.cost[k]
			servertest.Await(t, "a look", func() bool {
				ops := []weir.Op{{Key: key, Limit: l, Verb: weir.Peek}}
				if err := s.Take(ctx, ops); err != nil || ops[0].Decision.Degraded() {
					return false
				}
				got := l.Count - ops[0].Decision.Remaining
				if got < want-x.elsewhere[k] || got > want && c.Mode == params.ConsistencyStrict {
					t.Errorf("%d, %s: owed %d, charged %d", i, key, want, got)
				}
				return true
			})
		}
	}
	t.Logf("%d pairs of keys, %d of them moved, %d faults, %d calls without an answer", len(all), moved, faults.Load(), degraded.Load())
}
