package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// redisNode returns a node that shares a real server with others.
func redisNode(t *testing.T, newNode New, r *servertest.RedisServer, opt Options) (Node, *redis.Store) {
	t.Helper()
	shared := openRedis(t, "redis://"+r.Addr, opt.Timeout)
	return nodeOn(t, newNode, shared, opt), shared
}

// nodeAt returns a node that shares servers with others.
func nodeAt(t *testing.T, newNode New, url string, opt Options) Node {
	t.Helper()
	return nodeOn(t, newNode, openRedis(t, url, opt.Timeout), opt)
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
func nodeOn(t *testing.T, newNode New, shared weir.Store, opt Options) Node {
	t.Helper()
	opt.Local = memory.New(memory.Options{MaxBytes: 1 << 20})
	opt.MaxBytes, opt.Prompt = 4<<20, true
	s, err := newNode(shared, opt)
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
// mode: the limit holds, and when all is returned and pushed the server has
// counted what passed.
func testRedisFleet(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	var nodes []Node
	var servers []*redis.Store
	for range 4 {
		s, shared := redisNode(t, newNode, r, Options{Nodes: 4, Timeout: 5 * time.Second})
		nodes, servers = append(nodes, s), append(servers, shared)
	}
	for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
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
			if m == params.ConsistencyEventual {
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
	for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		l := weir.PerDay(1000, algorithm.SlidingSubwindows)
		l.Name = fmt.Sprint(m, l.Algorithm.Name())
		compiled(t, l, nil)
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
		if err := servers[0].Take(context.Background(), ops); err != nil || ops[0].Decision.Remaining > 20 {
			t.Errorf("%s: %d are left, %v", l.Name, ops[0].Decision.Remaining, err)
		}
	}
}

// Four nodes on a real Redis hand out permits at full speed: never more than there
// are, with far fewer calls than questions, and when all is over the server has none
// left taken.
func testRedisPermits(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	var nodes []Node
	var server *redis.Store
	for range 4 {
		s, shared := redisNode(t, newNode, r, Options{Nodes: 4, Timeout: 5 * time.Second})
		nodes, server = append(nodes, s), shared
	}
	const count = 60
	l := compiled(t, &weir.Limit{Name: "places", Algorithm: algorithm.Concurrency, Count: count, Period: time.Minute}, leased)
	var inside, most, asked, got, ids atomic.Int64
	end := time.Now().Add(time.Second)
	var clients sync.WaitGroup
	for i := range 100 {
		s, rng := nodes[i%4], rand.New(rand.NewPCG(uint64(i), 7))
		clients.Go(func() {
			for time.Now().Before(end) {
				o := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: ids.Add(1)}}
				if err := s.Take(context.Background(), o); err != nil || o[0].Decision.Guarantee().Degraded {
					t.Errorf("%+v, %v", o[0].Decision, err)
					return
				}
				wait := time.Duration(rng.Int64N(int64(4 * time.Millisecond)))
				if asked.Add(1); !o[0].Charged {
					<-time.After(wait)
					continue
				}
				got.Add(1)
				now := inside.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
					old = most.Load()
				}
				<-time.After(wait)
				inside.Add(-1)
				if err := s.Take(context.Background(), []weir.Op{o[0].Undo(1)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	var calls uint64
	for _, s := range nodes {
		calls += s.Stats().Calls
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	look := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek, ID: 1}}
	if err := server.Take(context.Background(), look); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d got a place, %d at most at once, by %d calls", got.Load(), asked.Load(), most.Load(), calls)
	if n := look[0].Decision.Remaining; n != count {
		t.Errorf("%d of %d places are free when all is over", n, count)
	}
	if most.Load() > count || most.Load() < count*9/10 || uint64(asked.Load()+got.Load()) < 3*calls {
		t.Errorf("%d of %d at once; %d questions, %d calls", most.Load(), count, asked.Load(), calls)
	}
}

// A server that is killed and comes back: no decision takes longer than its
// budget, and within a second of its return decisions are exact again.
func testRedisKilled(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	s, _ := redisNode(t, newNode, r, Options{})
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

// The same with real servers: one, a ring, a cluster, and two of Memcached. The budget is
// one that a busy machine keeps to.
func testRedisDeadlines(t *testing.T, newNode New) {
	t.Parallel()
	const budget = 10 * time.Second
	kinds := []string{"server", "ring", "cluster", "memcached"}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var url string
			var check func(*weir.Limit) error
			switch kind {
			case "server":
				url = "redis://" + servertest.Redis(t).Addr
			case "ring":
				url = "redis+ring://" + servertest.Redis(t).Addr + "," + servertest.Redis(t).Addr
			case "cluster":
				url = "redis+cluster://" + servertest.RedisCluster(t, 3)[0].Addr
			}
			var nodes []Node
			var servers []*redis.Store
			if kind == "memcached" {
				first, _ := servertest.Memcached(t, "")
				second, _ := servertest.Memcached(t, "")
				check = memcached.Check
				nodes = []Node{memcachedNode(t, newNode, budget, first, second), memcachedNode(t, newNode, budget, first, second)}
			}
			for len(nodes) < 2 {
				shared := openRedis(t, url, budget)
				servers = append(servers, shared)
				nodes = append(nodes, nodeOn(t, newNode, shared, Options{Nodes: 2, Timeout: budget}))
			}
			callersDeadlines(t, nodes, check, 1, 8, int(runs(200, 5000)), 2*time.Millisecond, 200*time.Microsecond)
			for _, s := range servers {
				if st := s.Stats(); st.LostServers != 0 || st.LostSlots != 0 || st.Moved != 0 {
					t.Errorf("%d servers and %d slots were lost, %d decisions moved", st.LostServers, st.LostSlots, st.Moved)
				}
			}
		})
	}
}
