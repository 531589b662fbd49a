package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// mixer makes up requests of which some limits are counted on the node and some
// on the shared store.
type mixer struct {
	*rand.Rand
	limits map[params.ConsistencyMode][]*weir.Limit
}

func newMixer(t *testing.T, modes ...params.ConsistencyMode) *mixer {
	m := &mixer{Rand: rand.New(rand.NewPCG(3, 3)), limits: map[params.ConsistencyMode][]*weir.Limit{}}
	for _, mode := range modes {
		// Not sliding_window: what is left of a refund leaves later there.
		for i, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows} {
			l := &weir.Limit{Name: fmt.Sprint(mode, i), Algorithm: a, Count: 4 + int64(i), Period: 3 * time.Second}
			l.Consistency = params.Consistency{Mode: mode, DenyCache: params.DenyCacheOff}
			m.limits[mode] = append(m.limits[mode], compiled(t, l, nil))
		}
	}
	return m
}

// ops returns one to five ops, half of them in a role that is not Enforce.
func (m *mixer) ops() []weir.Op {
	var modes []params.ConsistencyMode
	for mode := range m.limits {
		modes = append(modes, mode)
	}
	slices.Sort(modes)
	var ops []weir.Op
	for range 1 + m.IntN(5) {
		ls := m.limits[modes[m.IntN(len(modes))]]
		o := weir.Op{Key: fmt.Sprint(m.IntN(2)), Limit: ls[m.IntN(len(ls))], Cost: 1 + m.Int64N(2)}
		switch m.IntN(12) {
		case 0:
			o.Role = weir.Soft
		case 1:
			o.Role = weir.Shadow
		case 2:
			o.Role, o.Cost = weir.Ban, 1
		case 3:
			o.Penalize = true
		case 4:
			o.Headroom = 2
		case 5:
			o.Role = weir.Own
			ops = append(ops, o)
			o.Role, o.Limit, o.Key = weir.Pool, ls[m.IntN(3)], "pool"
		case 6:
			o.Verb = weir.Force
		}
		ops = append(ops, o)
	}
	return ops
}

// A request that two stores decide is decided as by one: the same pass,
// and the same is charged.
func testMixedStores(t *testing.T, newNode New) {
	var clock atomic.Int64
	clock.Store(1_773_500_966_535_897)
	f := newFleet(t, newNode, 1, Options{Now: clock.Load, Timeout: 10 * time.Second})
	one := memory.New(memory.Options{MaxBytes: 1 << 20, Now: clock.Load})
	defer one.Close()
	m := newMixer(t, params.ConsistencyStrict, params.ConsistencyLocal)
	mixed, passed := 0, 0
	for n := range 20_000 {
		got := m.ops()
		want := slices.Clone(got)
		if err := f.nodes[0].Take(context.Background(), got); err != nil {
			t.Fatal(err)
		}
		if err := one.Take(context.Background(), want); err != nil {
			t.Fatal(err)
		}
		modes := map[params.ConsistencyMode]bool{}
		for i := range got {
			modes[got[i].Limit.Consistency.Mode] = true
			if got[i].Charged != want[i].Charged || got[i].Borrowed != want[i].Borrowed {
				t.Fatalf("request %d, op %d of %+v: charged %v, want %v", n, i, got, got[i].Charged, want[i].Charged)
			}
			if got[i].Charged && got[i].Decision.Remaining != want[i].Decision.Remaining {
				t.Fatalf("request %d, op %d of %+v: %d remain, want %d", n, i, got, got[i].Decision.Remaining, want[i].Decision.Remaining)
			}
		}
		if got, want := weir.Fold(got).Allowed(), weir.Fold(want).Allowed(); got != want {
			t.Fatalf("request %d: allowed %v, want %v", n, got, want)
		}
		if len(modes) == 2 {
			mixed++
			if weir.Fold(got).Allowed() {
				passed++
			}
		}
		clock.Add(m.Int64N(300_000))
	}
	if mixed < 3000 || passed < 500 || passed > mixed-500 {
		t.Errorf("of %d mixed requests %d passed: the test tests little", mixed, passed)
	}
}

// A request that meets limits of every mode passes all of them or is charged to
// none: after everything was refunded, each has spent what passed.
func testMixedModes(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 2, Options{})
		limit := func(n int64, m params.ConsistencyMode) *weir.Limit {
			l := &weir.Limit{Name: m.String(), Algorithm: algorithm.FixedWindow, Count: n, Period: time.Hour}
			l.Consistency = params.Consistency{Mode: m, DenyCache: params.DenyCacheOff}
			return compiled(t, l, nil)
		}
		wide, narrow := limit(500, params.ConsistencyLeased), limit(100, params.ConsistencyStrict)
		own, tried := limit(80, params.ConsistencyLocal), limit(60, params.ConsistencyLeased)
		tried = compiled(t, &weir.Limit{Name: "tried", Algorithm: algorithm.FixedWindow, Count: 60, Period: time.Hour, Consistency: tried.Consistency}, nil)
		passed := int64(0)
		for n := range 400 {
			ops := []weir.Op{
				{Key: "k", Limit: narrow, Cost: 1}, {Key: "k", Limit: wide, Cost: 2},
				{Key: "k", Limit: own, Cost: 1}, {Key: "k", Limit: tried, Cost: 1, Role: weir.Shadow},
			}
			if err := f.nodes[n%2].Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if ops[0].Charged != ops[1].Charged || ops[0].Charged != ops[2].Charged || ops[3].Charged && !ops[0].Charged {
				t.Fatalf("charged in part: %+v", ops)
			}
			if ops[0].Charged != weir.Fold(ops).Allowed() {
				t.Fatalf("charged %v, allowed %v", ops[0].Charged, weir.Fold(ops).Allowed())
			}
			if ops[0].Charged {
				passed++
			}
		}
		for _, s := range f.nodes {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if passed != 100 || f.left("k", narrow) != 0 || f.left("k", wide) != 500-2*passed || f.left("k", tried) != 0 {
			t.Errorf("%d passed; %d, %d and %d are left", passed, f.left("k", narrow), f.left("k", wide), f.left("k", tried))
		}
	})
}

// In an outage a request whose limits have different policies passes
// all of them or is charged to none.
func testMixedPolicies(t *testing.T, newNode New) {
	var clock atomic.Int64
	clock.Store(1_773_500_966_535_897)
	f := newFleet(t, newNode, 2, Options{Now: clock.Load, Timeout: 10 * time.Second})
	m := newMixer(t, params.ConsistencyStrict, params.ConsistencyLocal)
	for i, l := range m.limits[params.ConsistencyStrict] {
		changed := &weir.Limit{Name: l.Name, Algorithm: l.Algorithm, Count: 2 * l.Count, Period: l.Period, Consistency: l.Consistency}
		changed.Consistency.OnStoreError = []params.StoreErrorPolicy{params.OnErrorLocal, params.OnErrorAllow, params.OnErrorDeny, params.OnErrorLastKnown}[i%4]
		m.limits[params.ConsistencyStrict][i] = compiled(t, changed, nil)
	}
	f.shared.set(down)
	passed, refused := 0, 0
	for n := range 10_000 {
		ops := m.ops()
		if err := f.nodes[0].Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		pass := weir.Fold(ops).Allowed()
		if pass {
			passed++
		} else {
			refused++
		}
		for i := range ops {
			o := &ops[i]
			denies := o.Limit.Consistency.OnStoreError == params.OnErrorDeny && o.Limit.Consistency.Mode == params.ConsistencyStrict
			if denies && o.Role == weir.Enforce && o.Verb == weir.Spend && pass {
				t.Fatalf("request %d passed %+v", n, o)
			}
			if o.Charged && !pass && o.Role != weir.Ban && !o.Penalize {
				t.Fatalf("request %d: refused, and charged %+v", n, o)
			}
		}
		clock.Add(m.Int64N(300_000))
	}
	if passed < 500 || refused < 500 {
		t.Errorf("%d passed and %d did not: the test tests little", passed, refused)
	}
}

// A request that is refused by one of its limits is decided, whatever is not known of
// the others: by a remembered refusal, on the node, from a lease, by the store.
func testRefusedRequests(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		modes := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal}
		for _, first := range modes {
			for _, second := range modes {
				for _, full := range []int{0, 1} {
					var limits weir.Limits
					for i, m := range []params.ConsistencyMode{first, second} {
						l := weir.PerDay(100, algorithm.FixedWindow)
						if l.Name = fmt.Sprint(first, second, full, i); i == full {
							l.Count = 8
						}
						l.Consistency.Mode = m
						limits = append(limits, l)
					}
					lim, err := weir.New(f.nodes[0], limits, weir.Options{})
					if err != nil {
						t.Fatal(err)
					}
					passed := 0
					for range 40 {
						d, err := lim.Take(context.Background(), fmt.Sprint("k", first, second, full), 1)
						if err != nil || d.Limit == nil {
							t.Fatalf("%s and %s, number %d is used up: %+v, %v", first, second, full, d, err)
						}
						if d.Allowed() {
							passed++
						}
					}
					if passed > 16 {
						t.Errorf("%s and %s: %d passed of 8", first, second, passed)
					}
				}
			}
		}
	})
}

// A request that is refused leaves every counter as it was, whatever algorithms and modes it
// mixes: what cannot be given back without a trace is looked at first and charged last.
func testRefusalsLeaveNoTrace(t *testing.T, newNode New) {
	var clock atomic.Int64
	clock.Store(1_773_500_966_535_897)
	for _, servers := range []int{1, 3} {
		opt := Options{Now: clock.Load, Timeout: 10 * time.Second, Servers: servers}
		refusalsLeaveNoTrace(t, newFleet(t, newNode, 1, opt).nodes[0], 1500)
	}
}

func testRefusalsLeaveNoTraceOnRedis(t *testing.T, newNode New) {
	s, _ := redisNode(t, newNode, servertest.Redis(t), Options{Timeout: 10 * time.Second})
	refusalsLeaveNoTrace(t, s, 450)
}

func refusalsLeaveNoTrace(t *testing.T, s Node, requests int) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var limits []*weir.Limit
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLocal} {
		for _, a := range []weir.Algorithm{
			algorithm.Approximate, algorithm.LeakyQueue, algorithm.SlidingLog, algorithm.SlidingWindow, algorithm.FixedWindow,
			algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.TokenBucket, algorithm.Concurrency,
		} {
			if l := weir.PerDay(20, a); a != algorithm.Approximate || mode == params.ConsistencyLocal {
				l.Name, l.Consistency = fmt.Sprint(a.Name(), mode), params.Consistency{Mode: mode, DenyCache: params.DenyCacheOff}
				limits = append(limits, compiled(t, l, nil))
			}
		}
	}
	keys := []string{"a", "b", "c"}
	left := func(key string) []int64 {
		ops := make([]weir.Op, len(limits))
		for i, l := range limits {
			ops[i] = weir.Op{Key: key, Limit: l, Cost: 1, ID: 1 << 40, Verb: weir.Peek, Role: weir.Always}
		}
		if err := s.Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		out := make([]int64, len(ops))
		for i := range ops {
			out[i] = ops[i].Decision.Remaining
		}
		return out
	}
	refused := 0
	for n := range requests {
		if n%150 == 0 {
			for i := range keys {
				keys[i] = fmt.Sprint(string(rune('a'+i)), n) // others, which have all left
			}
		}
		var ops []weir.Op
		for range 2 + rnd.IntN(3) {
			l := limits[rnd.IntN(len(limits))]
			ops = append(ops, weir.Op{Key: keys[rnd.IntN(len(keys))], Limit: l, Cost: 1 + rnd.Int64N(5), ID: 1 + rnd.Int64N(8), NewLease: rnd.IntN(2) == 0})
		}
		var before, after [3][]int64
		for i, key := range keys {
			before[i] = left(key)
		}
		if err := s.Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		if weir.Fold(ops).Allowed() {
			continue
		}
		refused++
		for i, key := range keys {
			if after[i] = left(key); !slices.Equal(before[i], after[i]) {
				t.Fatalf("request %d is refused, and of %s %d remain, %d before; it was %+v", n, key, after[i], before[i], ops)
			}
		}
	}
	if refused < requests/8 || refused > requests*7/8 {
		t.Errorf("%d of %d are refused: the test tests little", refused, requests)
	}
}

// What a node counts alone it decides without the shared store.
func testLocalLimits(t *testing.T, newNode New) {
	f := newFleet(t, newNode, 2, Options{Timeout: 10 * time.Second})
	f.shared.set(down)
	l := compiled(t, weir.PerHour(3, algorithm.SlidingWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLocal })
	calls := f.shared.calls.Load()
	for _, s := range f.nodes {
		for i := range 4 {
			d := f.take(s, "k", l, 1)
			if g := d.Guarantee(); d.Allowed() != (i < 3) || g.Source != weir.FromLocal || g.Degraded {
				t.Errorf("spend %d of 3: %+v, %s", i, d, g)
			}
		}
	}
	// The node's registration is all that goes to the store.
	if n := f.shared.calls.Load() - calls; n > 2 {
		t.Errorf("%d calls", n)
	}
}
