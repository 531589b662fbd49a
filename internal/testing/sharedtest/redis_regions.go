package sharedtest

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
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// redisWorld is regions on real servers, each region with a proxy to each other.
type redisWorld struct {
	*testing.T
	servers []*servertest.RedisServer
	nodes   []Node // one of each region
	stores  []*redis.Store
	proxies []*servertest.Proxy
}

func newRedisWorld(t *testing.T, newNode New, regions int) *redisWorld {
	t.Helper()
	w := &redisWorld{T: t}
	for range regions {
		w.servers = append(w.servers, servertest.Redis(t))
	}
	open := func(addr string, timeout time.Duration) *redis.Store {
		s, err := redis.Open(context.Background(), "redis://"+addr, redis.Options{Timeout: timeout, Prefix: "regions"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i, server := range w.servers {
		opt := Options{Region: fmt.Sprint("r", i), Timeout: 30 * time.Second, PeerTimeout: 3 * time.Second, MaxBytes: 4 << 20, Prompt: true}
		opt.Local = memory.New(memory.Options{MaxBytes: 1 << 20})
		after := []weir.Store{opt.Local}
		for j, other := range w.servers {
			if j == i {
				continue
			}
			p := servertest.NewProxy(t, other.Addr)
			p.Delay(servertest.Replies, 5*time.Millisecond)
			w.proxies = append(w.proxies, p)
			s := open(p.Addr, 3*time.Second)
			after = append(after, s)
			opt.Peers = append(opt.Peers, Peer{Name: fmt.Sprint("r", j), Store: s})
		}
		shared := open(server.Addr, 30*time.Second)
		s, err := newNode(shared, opt)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes, w.stores = append(w.nodes, s), append(w.stores, shared)
		t.Cleanup(func() {
			for _, c := range append([]weir.Store{s, shared}, after...) {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return w
}

// offer asks every region for n units of a limit, and returns how many passed.
func (w *redisWorld) offer(l *weir.Limit, n int) int64 {
	w.Helper()
	var passed atomic.Int64
	var wg sync.WaitGroup
	for _, s := range w.nodes {
		for range 4 {
			wg.Go(func() {
				for range n / 4 {
					d, err := s.TakeOne(context.Background(), "k", l, 1)
					if err != nil || d.Guarantee().Degraded {
						w.Errorf("%+v, %v", d, err)
						return
					}
					if d.Allowed() {
						passed.Add(1)
					} else {
						// As a client would, though sooner.
						<-time.After(min(d.RetryAfter, 3*time.Millisecond))
					}
				}
			})
		}
	}
	wg.Wait()
	return passed.Load()
}

// Three regions on real servers: their limits hold while they reach each other,
// while they cannot, and when they can again.
func testRedisRegions(t *testing.T, newNode New) {
	t.Parallel()
	w := newRedisWorld(t, newNode, 3)
	const count, over = 600, 90
	reachable := compiled(t, &weir.Limit{Name: "together", Algorithm: algorithm.SlidingWindow, Count: count, Period: 24 * time.Hour}, eventual(over))
	if n := w.offer(reachable, count); n > count+over || n < count*9/10 {
		t.Errorf("together: %d passed of %d and %d", n, count, over)
	}
	// Whatever is on its way when they are cut off arrives late or never.
	cut := compiled(t, &weir.Limit{Name: "cut", Algorithm: algorithm.FixedWindow, Count: count, Period: 365 * 24 * time.Hour}, eventual(over))
	n := w.offer(cut, count/4)
	for _, p := range w.proxies {
		p.Stall(servertest.Requests, true)
	}
	during := w.offer(cut, 400)
	for _, s := range w.nodes {
		if st := s.Stats(); st.Capped == 0 {
			t.Errorf("cut off: %+v", st)
		}
	}
	for _, p := range w.proxies {
		p.Stall(servertest.Requests, false)
		p.Reset()
	}
	servertest.Await(t, "the regions to be together again", func() bool {
		for _, s := range w.nodes {
			for _, r := range s.Stats().Regions {
				if r.BreakerOpen {
					return false
				}
			}
		}
		return true
	})
	n += during + w.offer(cut, 2*count)
	t.Logf("%d passed of %d and %d, %d of them while cut off", n, count, over, during)
	if n > count+over || n < count*9/10 {
		t.Errorf("%d passed of %d and %d", n, count, over)
	}
}

// A region whose server is killed and comes back empty admits once more at most what
// it had admitted itself, or fetched.
func testRedisRegionLost(t *testing.T, newNode New) {
	t.Parallel()
	w := newRedisWorld(t, newNode, 2)
	const count, over = 500, 40
	l := compiled(t, &weir.Limit{Name: "lost", Algorithm: algorithm.FixedWindow, Count: count, Period: 365 * 24 * time.Hour}, func(l *weir.Limit) {
		eventual(over)(l)
		l.Consistency.OnStoreError = params.OnErrorDeny
	})
	own := int64(0)
	for own < 150 {
		if d, err := w.nodes[0].TakeOne(context.Background(), "k", l, 1); err == nil && d.Allowed() {
			own++
		} else {
			<-time.After(3 * time.Millisecond)
		}
	}
	look := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
	if err := w.stores[0].Take(context.Background(), look); err != nil {
		t.Fatal(err)
	}
	// Some may be fetched just now.
	lost := count - look[0].Decision.Remaining + over/2
	w.servers[0].Kill(t)
	w.servers[0].Restart(t)
	servertest.Await(t, "the region to be back", func() bool {
		d, err := w.nodes[0].TakeOne(context.Background(), "other", l, 1)
		return err == nil && !d.Guarantee().Degraded
	})
	n := own + w.offer(l, 3*count)
	t.Logf("%d passed of %d and %d, %d before the server was lost, with at most %d counted", n, count, over, own, lost)
	if n > count+over+lost || n < count*9/10 {
		t.Errorf("%d passed of %d and %d, %d before the server was lost, with at most %d counted", n, count, over, own, lost)
	}
}
