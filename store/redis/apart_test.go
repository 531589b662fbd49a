package redis

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// onEach returns a key of each server of a ring.
func onEach(t *testing.T, s *Store) []string {
	t.Helper()
	servers := s.nodes.(*ring).servers
	keys := make([]string, len(servers))
	for i := 0; ; i++ {
		key, missing := fmt.Sprint("key", i), 0
		for j, v := range servers {
			if keys[j] == "" && s.nodes.routeTag(tagForKey(key)).server == v {
				keys[j] = key
			}
			if keys[j] == "" {
				missing++
			}
		}
		if missing == 0 {
			return keys
		}
	}
}

func remaining(t *testing.T, s *Store, key string, l *weir.Limit) int64 {
	t.Helper()
	ops := []weir.Op{{Key: key, Limit: l, Verb: weir.Peek}}
	if err := s.Take(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	return ops[0].Decision.Remaining
}

// What was taken from one server is given back when another does not answer.
func TestGiveBackWhenAServerFails(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers)+"?ring_on_loss=policy", Options{Timeout: busy})
	keys := onEach(t, s)
	l := perHour(t, 10, algorithm.TokenBucket)
	ask := func() error {
		return s.Take(t.Context(), []weir.Op{{Key: keys[0], Limit: l, Cost: 1}, {Key: keys[1], Limit: l, Cost: 1}})
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var late *TimeoutError
	if err := ask(); !errors.As(err, &late) || !late.Sent {
		t.Errorf("a server that is stopped: %v", err)
	}
	if got := remaining(t, s, keys[0], l); got != 9 {
		t.Errorf("%d of 10 left, want 9", got)
	}
	if st := s.Stats(); st.Rollbacks != 1 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
	if err := servers[1].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// Elastic limits on one server and their pool on another: each tenant gets its
// share, no more is borrowed than the pool has, and what is given back is all that
// was taken in vain.
func TestElasticApart(t *testing.T) {
	t.Parallel()
	s := open(t, urlOf("redis+ring", newRing(t, 2)), Options{Timeout: long})
	keys := onEach(t, s)
	const share, pooled, clients = 20, 50, 64
	own, pool := perHour(t, share, algorithm.TokenBucket), perHour(t, pooled, algorithm.FixedWindow)
	var assured, borrowed atomic.Int64
	each(clients, func(int) {
		for range 8 {
			ops := []weir.Op{{Key: keys[0], Limit: own, Cost: 1, Role: weir.Own}, {Key: keys[1], Limit: pool, Cost: 1, Role: weir.Pool}}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Error(err)
			}
			switch {
			case ops[0].Charged && ops[1].Charged && !ops[1].Borrowed:
				assured.Add(1)
			case ops[1].Charged && ops[1].Borrowed:
				borrowed.Add(1)
			case ops[0].Charged || ops[1].Charged || ops[1].Decision.Allowed():
				t.Errorf("own %+v, pool %+v", ops[0], ops[1])
			}
		}
	})
	if assured.Load() != share {
		t.Errorf("%d of the share of %d passed", assured.Load(), share)
	}
	if borrowed.Load() > pooled-share {
		t.Errorf("%d were borrowed, %d were to be had", borrowed.Load(), pooled-share)
	}
	if got, want := remaining(t, s, keys[1], pool), pooled-assured.Load()-borrowed.Load(); got != want {
		t.Errorf("%d left in the pool, want %d", got, want)
	}
	t.Logf("%d assured, %d borrowed, %+v", assured.Load(), borrowed.Load(), s.Stats())
}

// Leases on two servers for one piece of work: never are more held than there are
// of either, and none is left when all have ended.
func TestLeasesApart(t *testing.T) {
	t.Parallel()
	s := open(t, urlOf("redis+ring", newRing(t, 2)), Options{Timeout: long})
	keys := onEach(t, s)
	const most = 3
	l := perHour(t, most, algorithm.Concurrency)
	var held, passed, id atomic.Int64
	each(32, func(int) {
		for range 10 {
			work := id.Add(1)
			ops := []weir.Op{{Key: keys[0], Limit: l, Cost: 1, ID: work}, {Key: keys[1], Limit: l, Cost: 1, ID: work}}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Error(err)
			}
			if ops[0].Charged != ops[1].Charged {
				t.Errorf("charged in part: %+v, %+v", ops[0], ops[1])
			}
			if !ops[0].Charged {
				continue
			}
			passed.Add(1)
			if n := held.Add(1); n > most {
				t.Errorf("%d are held", n)
			}
			held.Add(-1)
			if err := s.Take(t.Context(), []weir.Op{ops[0].Undo(1), ops[1].Undo(1)}); err != nil {
				t.Error(err)
			}
		}
	})
	for _, key := range keys {
		if got := remaining(t, s, key, l); got != most {
			t.Errorf("%d of %d left when all had ended", got, most)
		}
	}
	if passed.Load() == 0 {
		t.Error("nobody got both leases")
	}
	t.Logf("%d passed, %+v", passed.Load(), s.Stats())
}

// A permit that was held before is held on when a request that renews it fails at another
// server.
func TestRenewedPermitIsKept(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers)+"?ring_on_loss=policy", Options{Timeout: busy})
	keys := onEach(t, s)
	permits, other := perHour(t, 3, algorithm.Concurrency), perHour(t, 10, algorithm.FixedWindow)
	ask := func() error {
		return s.Take(t.Context(), []weir.Op{
			{Key: keys[0], Limit: permits, Cost: 1, ID: 7, Role: weir.Always, Verb: weir.Force},
			{Key: keys[1], Limit: other, Cost: 1, Role: weir.Always, Verb: weir.Force},
		})
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil {
		t.Error("a server that is stopped has answered")
	}
	if got := remaining(t, s, keys[0], permits); got != 2 {
		t.Errorf("%d of 3 permits are free, want 2", got)
	}
	if err := servers[1].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
