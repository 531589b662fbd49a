package sharedtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// The same with real servers: connections to a server and to those of a ring are cut
// within an answer, and calls of a cluster fail before or after they were carried out.
func testRedisFetches(t *testing.T, newNode New) {
	t.Parallel()
	seed := seeds.Of(t)
	proxied := func(t *testing.T, n int) (addrs string, cut func()) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var proxies []*servertest.Proxy
		for range n {
			p := servertest.NewProxy(t, servertest.Redis(t).Addr)
			proxies, addrs = append(proxies, p), addrs+","+p.Addr
		}
		return addrs[1:], func() {
			for _, p := range proxies {
				p.CutAfter(rnd.Int64N(40))
			}
		}
	}
	open := func(t *testing.T, url string) weir.Store {
		s, err := redis.Open(context.Background(), url, redis.Options{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	kinds := []string{"server", "ring", "cluster"}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := &stalls{rate: 700, lasts: 3 * time.Second, times: 12, longest: 60 * time.Millisecond}
			limit := int64(4000)
			if runs(0, 1) == 1 {
				s.lasts, s.times, limit = 20*time.Second, 80, 20_000
			}
			var url string
			cut := func() {}
			switch kind {
			case "server":
				url, cut = proxied(t, 1)
				url = "redis://" + url
			case "ring":
				url, cut = proxied(t, 2)
				url = "redis+ring://" + url + "?ring_on_loss=policy"
			case "cluster":
				url = "redis+cluster://" + servertest.RedisCluster(t, 3)[0].Addr
			}
			var nodes []Node
			var cutters []*cutting
			for i := range 3 {
				shared := open(t, url)
				c := &cutting{Store: shared, longest: 100 * time.Millisecond, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
				local := memory.New(memory.Options{MaxBytes: 1 << 20})
				n, err := newNode(c, Options{Local: local, MaxBytes: 4 << 20, Prompt: true, Nodes: 3, Timeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					c.late.Wait()
					for _, c := range []weir.Store{n, shared, local} {
						if err := c.Close(); err != nil {
							t.Error(err)
						}
					}
				})
				nodes, cutters = append(nodes, n), append(cutters, c)
			}
			s.fault = func() func() {
				cut()
				if kind != "cluster" {
					return func() {}
				}
				for _, c := range cutters {
					c.share.Store(100)
				}
				return func() {
					// A node that is short of processor time calls late.
					servertest.Await(t, "a call to be cut", func() bool {
						return slices.ContainsFunc(cutters, func(c *cutting) bool { return c.cuts.Load() > 0 })
					})
					for _, c := range cutters {
						c.share.Store(0)
					}
				}
			}
			l := compiled(t, weir.PerHour(limit, algorithm.FixedWindow), leasedOr(params.OnErrorDeny))
			n := s.run(t, nodes, l, 1)
			var failed uint64
			for _, s := range nodes {
				failed += s.Stats().Failed
			}
			t.Logf("%d of %d, %d calls failed", n, l.Count, failed)
			if failed == 0 {
				t.Error("nothing was cut")
			}
			if n > l.Count || n < l.Count*95/100 {
				t.Errorf("%d admitted of %d", n, l.Count)
			}
		})
	}
}

// The same with real servers that are stopped and go on: a single one with three and
// with five nodes, all of a ring, and all of a cluster.
func testRedisStalls(t *testing.T, newNode New) {
	t.Parallel()
	ring := func(t *testing.T) (url string, servers []*servertest.RedisServer) {
		servers = []*servertest.RedisServer{servertest.Redis(t), servertest.Redis(t)}
		return "redis+ring://" + servers[0].Addr + "," + servers[1].Addr + "?ring_on_loss=policy", servers
	}
	for _, kind := range []struct {
		name      string
		nodes     int
		algorithm weir.Algorithm
		open      func(t *testing.T) (url string, servers []*servertest.RedisServer)
	}{
		{"server", 3, algorithm.FixedWindow, nil},
		{"server, strict window", 5, algorithm.SlidingWindow, nil},
		{"ring", 3, algorithm.FixedWindow, ring},
		{"cluster", 5, algorithm.SlidingCounter, func(t *testing.T) (string, []*servertest.RedisServer) {
			servers := servertest.RedisCluster(t, 3)
			return "redis+cluster://" + servers[0].Addr, servers
		}},
	} {
		if testing.Short() && kind.open != nil {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := &stalls{rate: 2100 / kind.nodes, lasts: 5 * time.Second, times: 8, longest: 395 * time.Millisecond}
			limit := int64(5000)
			if runs(0, 1) == 1 {
				s.lasts, s.times, limit = 20*time.Second, 10, 20_000
			}
			open := kind.open
			if open == nil {
				open = func(t *testing.T) (string, []*servertest.RedisServer) {
					r := servertest.Redis(t)
					return "redis://" + r.Addr, []*servertest.RedisServer{r}
				}
			}
			url, servers := open(t)
			signal := func(sig syscall.Signal) {
				for _, r := range servers {
					if err := r.Signal(sig); err != nil {
						t.Error(err)
					}
				}
			}
			s.fault = func() func() {
				signal(syscall.SIGSTOP)
				return func() { signal(syscall.SIGCONT) }
			}
			var nodes []Node
			for range kind.nodes {
				nodes = append(nodes, nodeAt(t, newNode, url, Options{Nodes: kind.nodes}))
			}
			l := compiled(t, weir.PerHour(limit, kind.algorithm), leasedOr(params.OnErrorDeny))
			n := s.run(t, nodes, l, 1)
			for _, s := range nodes {
				t.Logf("%+v", s.Stats())
			}
			t.Logf("%d of %d", n, l.Count)
			if n > l.Count || n < l.Count*95/100 {
				t.Errorf("%d admitted of %d", n, l.Count)
			}
		})
	}
}
