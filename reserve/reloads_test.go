package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// reloadedRules limit descriptors of "key" by the version that was loaded last.
type reloadedRules struct{ version atomic.Pointer[weir.Limit] }

// Match implements weir.Rules.
func (r *reloadedRules) Match(dst []weir.Op, q *weir.Request) []weir.Op {
	return onlyKeys{r.version.Load()}.Match(dst, q)
}

// unsteady is a store whose calls to it fail at once for a while: each before or after
// it was carried out, or all of those of a node that is dead.
type unsteady struct {
	weir.Store
	mu    sync.Mutex
	rnd   *rand.Rand
	share int // of the calls fail, of 100
	dead  bool
}

var errCut = errors.New("the connection was cut")

func (u *unsteady) Take(ctx context.Context, ops []weir.Op) error {
	u.mu.Lock()
	fails, before, dead := u.rnd.IntN(100) < u.share, u.rnd.IntN(2) == 0, u.dead
	u.mu.Unlock()
	if dead || fails && before {
		return errCut
	}
	err := u.Store.Take(ctx, ops)
	if fails {
		return errCut
	}
	return err
}

func (u *unsteady) set(share int, dead bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.share, u.dead = share, dead
}

// Reservations are made on nodes by one version of a limit and settled on others by
// another, by several callers at once that try again after each error, while calls are
// cut before or after they were carried out, and nodes die with what they hold. Each is
// settled once, and all that passes and is not given back is at most the largest version.
func TestFamilyReservationsAcrossReloads(t *testing.T) {
	n := uint64(12)
	if os.Getenv("WEIR_SOAK") == "1" {
		n = 400
	}
	seed := seeds.Of(t)
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { reserveAcrossReloads(t, rand.New(rand.NewPCG(seed, i))) })
		})
	}
}

func reserveAcrossReloads(t *testing.T, r *rand.Rand) {
	ctx := context.Background()
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	a := []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket, algorithm.LeakyBucket}[r.IntN(4)]
	const most, period = 8000, 10_000 * time.Hour
	compile := func(n int64, m params.ConsistencyMode) *weir.Limit {
		l := &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: period}
		l.Consistency = params.Consistency{Mode: m, OnStoreError: params.OnErrorDeny, LeaseTTL: time.Second}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	rules := new(reloadedRules)
	load := func() {
		m := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyLeased}[r.IntN(3)]
		rules.version.Store(compile(most>>r.IntN(4), m))
	}
	load()
	type node struct {
		*reserve.Reserver
		link   *unsteady
		shared *shared.Store
		local  *memory.Store
	}
	start := func() *node {
		n := &node{link: &unsteady{Store: store, rnd: rand.New(rand.NewPCG(r.Uint64(), 1))}, local: memory.New(memory.Options{MaxBytes: 1 << 20})}
		var err error
		if n.shared, err = shared.New(n.link, shared.Options{Local: n.local, MaxBytes: 1 << 20, Nodes: 3}); err != nil {
			t.Fatal(err)
		}
		lim, err := weir.New(n.shared, rules, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n.Reserver, err = reserve.New(lim, reserve.Options{Secret: secret}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	stop := func(n *node) {
		n.Close() // ends what it repeats
		if err := errors.Join(n.shared.Close(), n.local.Close()); err != nil {
			t.Error(err)
		}
	}
	nodes := []*node{start(), start(), start()}
	part := func(*weir.Limit) float64 { return 1.0 / most }
	type made struct {
		handle       string
		cost, actual int64
		part         float64
		cancel       bool
	}
	var open, ended []*made
	used := 0.0
	ask := func() *weir.Request {
		q := request(1 + r.Int64N(40))
		q.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "ann"}}}}
		return q
	}
	for range 150 {
		n := nodes[r.IntN(len(nodes))]
		switch x := r.IntN(20); {
		case x < 2:
			load()
		case x < 3:
			// It dies with what it holds; another takes its place.
			i := r.IntN(len(nodes))
			nodes[i].link.set(0, true)
			stop(nodes[i])
			nodes[i] = start()
		case x < 5:
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		case x < 12:
			q := ask()
			l := rules.version.Load()
			n.link.set(r.IntN(2)*20, false)
			res, err := n.Reserve(ctx, q)
			n.link.set(0, false)
			if err == nil && res.Handle != "" {
				m := &made{handle: res.Handle, cost: q.Cost, actual: r.Int64N(2 * q.Cost), part: part(l), cancel: r.IntN(2) == 0}
				open = append(open, m)
				used += float64(m.cost) * m.part
			}
		case len(open) > 0:
			i := r.IntN(len(open))
			m := open[i]
			open = append(open[:i], open[i+1:]...)
			ended = append(ended, m)
			var wg sync.WaitGroup
			for range 1 + r.IntN(4) {
				by := nodes[r.IntN(len(nodes))]
				by.link.set(r.IntN(2)*40, false)
				wg.Go(func() {
					for range 20 {
						var err error
						if m.cancel {
							_, err = by.Cancel(ctx, m.handle)
						} else {
							_, err = by.Commit(ctx, m.handle, m.actual)
						}
						if err == nil || errors.Is(err, reserve.ErrSettled) {
							return
						}
						time.Sleep(300 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			for _, n := range nodes {
				n.link.set(0, false)
			}
			// Settled or not, at most this was given back.
			switch {
			case m.cancel:
				used -= float64(m.cost) * m.part
			case m.actual < m.cost:
				used -= float64(m.cost-m.actual) * m.part
			}
		}
	}
	time.Sleep(2 * time.Second)
	for _, m := range ended {
		// With another cost than any.
		if _, err := nodes[0].Commit(ctx, m.handle, 1<<40); !errors.Is(err, reserve.ErrSettled) {
			t.Errorf("not settled: %v", err)
		}
	}
	for _, n := range nodes {
		stop(n)
	}
	final := compile(most, params.ConsistencyStrict)
	look := []weir.Op{{Key: "ann", Limit: final, Cost: 1, Verb: weir.Peek}}
	if err := store.Take(ctx, look); err != nil {
		t.Fatal(err)
	}
	left := float64(look[0].Decision.Remaining) * part(final)
	t.Logf("%s: %d reserved, %d settled, %.4f used, %.4f left", a.Name(), len(open)+len(ended), len(ended), used, left)
	if used+left > 1+3.0/most {
		t.Errorf("%s: %.5f of the limit is used and not given back, %.5f is left", a.Name(), used, left)
	}
	if len(ended) < 10 {
		t.Errorf("only %d were settled", len(ended))
	}
}
