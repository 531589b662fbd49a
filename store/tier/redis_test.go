package tier_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/tier"
)

// redisNode returns a node that shares a real server with others.
func redisNode(t *testing.T, r *servertest.RedisServer, opt tier.Options) (*tier.Store, *redis.Store) {
	t.Helper()
	shared := openRedis(t, "redis://"+r.Addr, opt.Timeout)
	return nodeOn(t, shared, opt), shared
}

// nodeAt returns a node that shares servers with others.
func nodeAt(t *testing.T, url string, opt tier.Options) *tier.Store {
	t.Helper()
	return nodeOn(t, openRedis(t, url, opt.Timeout), opt)
}

func openRedis(t *testing.T, url string, timeout time.Duration) *redis.Store {
	t.Helper()
	shared, err := redis.Open(context.Background(), url, redis.Options{Timeout: timeout, Prefix: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

// nodeOn returns a node over shared, which ends with it.
func nodeOn(t *testing.T, shared weir.Store, opt tier.Options) *tier.Store {
	t.Helper()
	opt.Local = memory.New(memory.Options{MaxBytes: 1 << 20})
	opt.MaxBytes, opt.Prompt = 4<<20, true
	s, err := tier.New(shared, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []weir.Store{s, shared, opt.Local} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// Four nodes on a real Redis, offered six times the limit at full speed in every
// mode: the limit holds, and when all is given back and told the server has
// counted what passed.
func TestFleetOnRedis(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	var nodes []*tier.Store
	var servers []*redis.Store
	for range 4 {
		s, shared := redisNode(t, r, tier.Options{Nodes: 4, Timeout: 5 * time.Second})
		nodes, servers = append(nodes, s), append(servers, shared)
	}
	for _, m := range []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased, weir.ConsistencyEventual} {
		for _, a := range lending {
			l := weir.PerDay(1000, a)
			l.Name, l.Consistency.Mode = fmt.Sprint(m, a.Name()), m
			compiled(t, l, nil)
			var passed atomic.Int64
			var wg sync.WaitGroup
			for g := range 32 {
				wg.Go(func() {
					for range 6000 / 32 {
						d, err := nodes[g%4].TakeOne(context.Background(), "k", l, 1)
						if err != nil || d.Guarantee().Degraded {
							t.Errorf("%+v, %v", d, err)
							return
						}
						if d.Allowed() {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			n, most := passed.Load(), l.Count
			if m == weir.ConsistencyEventual {
				most += l.Overshoot()
			}
			if n > most+1 || n < 980 {
				t.Errorf("%s: %d of 1000 passed", l.Name, n)
			}
		}
	}
	for i, s := range nodes {
		if st := s.Stats(); st.Nodes != 4 || st.Failed != 0 || st.Held == 0 {
			t.Errorf("node %d: %+v", i, st)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased, weir.ConsistencyEventual} {
		l := weir.PerDay(1000, algorithm.SlidingSubwindows)
		l.Name = fmt.Sprint(m, l.Algorithm.Name())
		compiled(t, l, nil)
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
		if err := servers[0].Take(context.Background(), ops); err != nil || ops[0].Decision.Remaining > 20 {
			t.Errorf("%s: %d are left, %v", l.Name, ops[0].Decision.Remaining, err)
		}
	}
}

// A server that is killed and comes back: no decision takes longer than its
// budget, and within a second of its return decisions are exact again.
func TestRedisIsKilled(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s, _ := redisNode(t, r, tier.Options{})
	strictly := compiled(t, weir.PerDay(1000, algorithm.SlidingWindow), strict)
	ahead := compiled(t, weir.PerDay(100_000, algorithm.FixedWindow), leased)
	ask := func(l *weir.Limit) weir.Decision {
		start := time.Now()
		d, err := s.TakeOne(context.Background(), "k", l, 1)
		if err != nil {
			t.Fatal(err)
		}
		// The rest is for a busy machine.
		if took := time.Since(start); took > 20*time.Millisecond+15*time.Second {
			t.Errorf("a decision took %s", took)
		}
		return d
	}
	for range 100 {
		ask(strictly)
		ask(ahead)
	}
	r.Kill(t)
	degraded := 0
	for range 1000 {
		if ask(strictly).Guarantee().Degraded {
			degraded++
		}
		ask(ahead)
	}
	if degraded < 990 {
		t.Errorf("only %d of 1000 decisions were degraded", degraded)
	}
	r.Restart(t)
	for deadline := time.Now().Add(time.Minute); ask(strictly).Guarantee().Degraded; {
		if time.Now().After(deadline) {
			t.Fatalf("degraded long after the server was back: %+v", s.Stats())
		}
	}
}
