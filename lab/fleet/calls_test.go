package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

var errRefused = errors.New("refused")

// tenth is a store that refuses one call in ten.
type tenth struct {
	weir.Store
	calls, refused atomic.Int64
}

func (s *tenth) Take(ctx context.Context, ops []weir.Op) error {
	if s.calls.Add(1)%10 == 0 {
		s.refused.Add(1)
		return errRefused
	}
	return s.Store.Take(ctx, ops)
}

// repeated is a store that gets calls which force costs once more: at once, and
// again after the next one.
type repeated struct {
	weir.Store
	mu     sync.Mutex
	before []weir.Op
	n      atomic.Int64
}

func (s *repeated) Take(ctx context.Context, ops []weir.Op) error {
	if ops[len(ops)-1].Verb != weir.Force {
		return s.Store.Take(ctx, ops)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	again := copied(ops)
	if err := s.Store.Take(ctx, ops); err != nil {
		return err
	}
	for _, late := range [][]weir.Op{copied(again), s.before} {
		if late == nil {
			continue
		}
		s.n.Add(1)
		if err := s.Store.Take(ctx, late); err != nil {
			return err
		}
	}
	s.before = again
	return nil
}

// copied returns ops with keys of their own.
func copied(ops []weir.Op) []weir.Op {
	out := append([]weir.Op(nil), ops...)
	for i := range out {
		out[i].Key = strings.Clone(out[i].Key)
	}
	return out
}

// openNodes returns nodes in this process on a real server, each behind a store of its
// own that wrap returns.
func openNodes(t *testing.T, n int, wrap func(weir.Store) weir.Store) ([]*shared.Store, *redis.Store) {
	t.Helper()
	server := servertest.Redis(t)
	store, err := redis.Open(t.Context(), "redis://"+server.Addr, redis.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]*shared.Store, n)
	closes := []weir.Store{store}
	for i := range nodes {
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		if nodes[i], err = shared.New(wrap(store), shared.Options{Local: local, Nodes: n, Timeout: 10 * time.Second, MaxBytes: 4 << 20}); err != nil {
			t.Fatal(err)
		}
		closes = append(closes, local, nodes[i])
	}
	t.Cleanup(func() {
		for i := range closes {
			if err := closes[len(closes)-1-i].Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return nodes, store
}

// perYear returns a limit that refuses while the store is away.
func perYear(t *testing.T, count, over int64, mode params.ConsistencyMode, a weir.Algorithm) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: fmt.Sprint(mode, a.Name()), Algorithm: a, Count: count, Period: 365 * 24 * time.Hour}
	l.Consistency = params.Consistency{Mode: mode, MaxOvershoot: over, OnStoreError: params.OnErrorDeny}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// Of a store that refuses one call in ten each limit is admitted as its mode
// promises, and the calls that were refused are decided by policy.
func TestOneCallInTenIsRefused(t *testing.T) {
	t.Parallel()
	const limit = 1000
	var faulty []*tenth
	nodes, _ := openNodes(t, 4, func(s weir.Store) weir.Store {
		f := &tenth{Store: s}
		faulty = append(faulty, f)
		return f
	})
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		l := perYear(t, limit, limit/10, mode, algorithm.FixedWindow)
		var passed atomic.Int64
		var clients sync.WaitGroup
		for i := range 16 {
			clients.Go(func() {
				for range 6 * limit / 16 {
					d, err := nodes[i%4].TakeOne(t.Context(), "k", l, 1)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed() {
						passed.Add(1)
					}
				}
			})
		}
		clients.Wait()
		most := int64(limit)
		if mode == params.ConsistencyEventual {
			most += limit / 10
		}
		if n := passed.Load(); n > most || n < limit*98/100 {
			t.Errorf("%s: %d passed, want %d to %d", mode, n, limit*98/100, most)
		}
	}
	for i, f := range faulty {
		if f.refused.Load() == 0 || nodes[i].Stats().BreakerOpen {
			t.Errorf("node %d: %d calls were refused, %+v", i, f.refused.Load(), nodes[i].Stats())
		}
	}
}

// What a node tells is counted once, though each push comes two times and once more
// after the next.
func TestPushesComeTwiceAndLate(t *testing.T) {
	t.Parallel()
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		t.Run(a.Name(), func(t *testing.T) {
			again := &repeated{}
			nodes, store := openNodes(t, 1, func(s weir.Store) weir.Store {
				again.Store = s
				return again
			})
			const limit = 100_000
			l := perYear(t, limit, limit/100, params.ConsistencyEventual, a)
			var spent int64
			for again.n.Load() < 40 {
				for range 5 {
					d, err := nodes[0].TakeOne(t.Context(), "k", l, 1)
					if err != nil || !d.Allowed() {
						t.Fatalf("%+v, %v after %d", d, err, spent)
					}
					spent++
				}
			}
			if err := nodes[0].Close(); err != nil {
				t.Fatal(err)
			}
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
			if err := store.Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			if left := ops[0].Decision.Remaining; left != limit-spent {
				t.Errorf("%d are left of %d of which %d were spent, and %d pushes were repeated", left, limit, spent, again.n.Load())
			}
		})
	}
}
