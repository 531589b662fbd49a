package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// A request that another limit refuses has no permit, unless it had one before.
func testRefusedPermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 1, 40, 10*time.Second, Options{})
		s := p.nodes[0]
		tight := compiled(t, weir.PerMinute(3, algorithm.FixedWindow), strict)
		both := func(id int64) bool {
			ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1, ID: id}, {Key: "k", Limit: tight, Cost: 1}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return weir.Fold(ops).Allowed()
		}
		for id := range int64(3) {
			if !both(id + 1) {
				t.Fatal("refused")
			}
		}
		for id := range int64(10) {
			if both(id + 1) {
				t.Fatal("passed")
			}
		}
		time.Sleep(2 * time.Second)
		if left := p.left("k", p.limit); left != 37 {
			t.Errorf("%d of 40 are left, 3 are taken", left)
		}
	})
}

// A limit that does not say leased is decided by the store, so that a permit can be
// returned to any node.
func testStrictPermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 2, 40, 10*time.Second, Options{})
		p.limit = compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 40, Period: 10 * time.Second}, nil)
		for id := range int64(40) {
			if !p.acquire(p.nodes[0], id+1, 1) {
				t.Fatal("refused")
			}
		}
		for id := range int64(40) {
			p.release(p.nodes[1], id+1)
		}
		for id := range int64(40) {
			if !p.acquire(p.nodes[1], id+101, 1) {
				t.Fatal("refused")
			}
		}
	})
}

// Limits that are reloaded, strict by turns, lose no permit.
func testPermitReloads(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 2, 40, 10*time.Second, Options{})
		s := p.nodes[0]
		version := func(m params.ConsistencyMode) *weir.Limit {
			return compiled(t, &weir.Limit{Name: "at once", Algorithm: algorithm.Concurrency, Count: 40, Period: 10 * time.Second},
				func(l *weir.Limit) { l.Consistency.Mode = m })
		}
		for round := range int64(6) {
			p.limit = version([]params.ConsistencyMode{params.ConsistencyLeased, params.ConsistencyStrict}[round%2])
			for id := range int64(20) {
				if !p.acquire(s, 100*round+id+1, 1) {
					t.Fatal("refused")
				}
			}
			p.limit = version([]params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased}[round%2])
			for id := range int64(20) {
				p.release(s, 100*round+id+1)
			}
			time.Sleep(3 * time.Second)
			if left := p.left("k", p.limit); left != 40 {
				t.Errorf("round %d: %d of 40 are left, none is taken", round, left)
			}
		}
	})
}

// A leased concurrency limit whose count is lowered by a reload, while all permits are
// taken and wanted, holds the new count when those who have a permit above it have
// finished; and raised again, the larger one.
func testPermitCountReloads(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(3, 1), 30) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 23))
			p := newPermits(t, newNode, 1+r.IntN(3), 200, time.Minute, Options{})
			version := func(n int64) *weir.Limit {
				return compiled(t, &weir.Limit{Name: "places", Algorithm: algorithm.Concurrency, Count: n, Period: time.Minute}, func(l *weir.Limit) {
					leased(l)
					l.Consistency.OnStoreError = params.OnErrorDeny
				})
			}
			var mu sync.Mutex
			limit, taken, most := version(200), int64(0), int64(0)
			now := func() *weir.Limit {
				mu.Lock()
				defer mu.Unlock()
				return limit
			}
			// watch begins to note how many permits are taken at most.
			watch := func() {
				mu.Lock()
				defer mu.Unlock()
				most = 0
			}
			var wg sync.WaitGroup
			end := make(chan struct{})
			for i := range 300 {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)+100))
				s := p.nodes[i%len(p.nodes)]
				wg.Go(func() {
					for {
						select {
						case <-end:
							return
						default:
						}
						// A permit that is granted after its caller was answered is returned.
						o := weir.Op{Key: "k", Limit: now(), Cost: 1, ID: p.name(), NewLease: true}
						ops := []weir.Op{o}
						if err := s.Take(t.Context(), ops); err != nil {
							t.Error(err)
							return
						}
						if !ops[0].Decision.Allowed() {
							time.Sleep(time.Duration(rnd.Int64N(int64(50 * time.Millisecond))))
							continue
						}
						mu.Lock()
						taken++
						most = max(most, taken)
						mu.Unlock()
						time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
						mu.Lock()
						taken--
						mu.Unlock()
						back := weir.Op{Key: "k", Limit: now(), Cost: 1, ID: o.ID, NewLease: true, Role: weir.Always, Verb: weir.Refund}
						if err := s.Take(t.Context(), []weir.Op{back}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 4 {
				n := 30 + r.Int64N(171)
				mu.Lock()
				limit = version(n)
				mu.Unlock()
				// Those who have a permit finish, and nodes return what is too much.
				time.Sleep(2 * time.Second)
				watch()
				time.Sleep(3 * time.Second)
				mu.Lock()
				// Each of several nodes holds some that none of its callers has just now.
				if most > n || most < n*2/3 {
					t.Errorf("%d places were taken at most, of %d", most, n)
				}
				mu.Unlock()
			}
			close(end)
			wg.Wait()
		})
	}
}
