package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/tier"
)

// cutting is a store whose connections break: a call fails at once, and is carried
// out before, not at all, or some time later.
type cutting struct {
	weir.Store
	// share of the calls that are cut, of 100.
	share atomic.Int64
	// longest is how much later a call is carried out at most.
	longest time.Duration
	late    sync.WaitGroup
	mu      sync.Mutex
	rnd     *rand.Rand
	cuts    atomic.Int64
}

func (c *cutting) Take(ctx context.Context, ops []weir.Op) error {
	c.mu.Lock()
	cut, how, later := c.rnd.Int64N(100) < c.share.Load(), c.rnd.IntN(3), time.Duration(c.rnd.Int64N(int64(c.longest)))
	c.mu.Unlock()
	if !cut {
		return c.Store.Take(ctx, ops)
	}
	c.cuts.Add(1)
	own := slices.Clone(ops)
	carryOut := func() { _ = c.Store.Take(context.WithoutCancel(ctx), own) }
	switch how {
	case 0:
		carryOut()
	case 1:
		c.late.Go(func() {
			time.Sleep(later)
			carryOut()
		})
	}
	return errDown
}

// cut has a fleet's store break connections.
func (f *fleet) cut(seed uint64, longest time.Duration) *cutting {
	c := &cutting{Store: f.shared.Store, longest: longest, rnd: rand.New(rand.NewPCG(seed, 1))}
	f.shared.Store = c
	f.Cleanup(func() {
		c.share.Store(0)
		c.late.Wait()
	})
	return c
}

// Connections that break ten times in 20 s, after calls were carried out or before,
// lose next to no units of a leased limit: a fetch is repeated under its number.
func TestFamilyFetchesAreRepeatable(t *testing.T) {
	for seed := range drawn(t, fewer(2, 1), 100) {
		for _, a := range lendingWindows {
			for _, prompt := range []bool{false, true} {
				virtual(t, fmt.Sprint(a.Name(), seed, prompt), func(t *testing.T) {
					f := newFleet(t, 3, tier.Options{Prompt: prompt})
					c := f.cut(seed, 300*time.Millisecond)
					f.shared.delay.Store(int64(time.Millisecond))
					s := &stalls{rate: 500, lasts: 20 * time.Second, times: 10, longest: 395 * time.Millisecond}
					s.fault = func() func() {
						c.share.Store(100)
						return func() { c.share.Store(0) }
					}
					l := compiled(t, weir.PerHour(20_000, a), leasedOr(weir.OnErrorDeny))
					n := s.run(t, f.nodes, l, seed)
					t.Logf("%d of %d, %d calls cut", n, l.Count, c.cuts.Load())
					if n > l.Count || n < l.Count*95/100 {
						t.Errorf("%d admitted of %d", n, l.Count)
					}
				})
			}
		}
	}
}

// lendingWindows are the algorithms that lend units for a time.
var lendingWindows = []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.SlidingWindow, algorithm.SlidingSubwindows}

// Whatever share of the calls is cut at random, over many short windows and with keys
// that nodes forget and meet again, no span gets more than the limit: a fetch that was
// not carried out, or for another window, is never taken for one that was.
func TestFamilyRepeatedFetchesAdmitNoneTooMany(t *testing.T) {
	for seed := range drawn(t, fewer(3, 1), 100) {
		for _, a := range lenders() {
			virtual(t, fmt.Sprint(a.Name(), seed), func(t *testing.T) {
				f := newFleet(t, 3, tier.Options{})
				c := f.cut(seed, 2*time.Second)
				f.shared.delay.Store(int64(time.Millisecond))
				l := &weir.Limit{Algorithm: a, Count: 2000, Period: 3 * time.Second}
				w := newLoad(f, compiled(t, l, leasedOr(weir.OnErrorDeny)))
				rnd := rand.New(rand.NewPCG(seed, 2))
				for range fewer(12, 5) {
					c.share.Store(rnd.Int64N(40))
					w.run(200+1800*rnd.Float64(), time.Duration(1+rnd.Int64N(15))*time.Second, rnd.IntN(2) == 0)
					time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Second))))
				}
				t.Logf("%s, %d calls cut", w, c.cuts.Load())
				if w.worst() > 0 {
					t.Errorf("%d too many", w.worst())
				}
			})
		}
	}
}

// The same with real servers: connections to a server and to those of a ring are cut
// within an answer, and calls of a cluster fail before or after they were carried out.
func TestFamilyFetchesAreRepeatableOnRedis(t *testing.T) {
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
			var nodes []*tier.Store
			var cutters []*cutting
			for i := range 3 {
				shared := open(t, url)
				c := &cutting{Store: shared, longest: 100 * time.Millisecond, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
				local := memory.New(memory.Options{MaxBytes: 1 << 20})
				n, err := tier.New(c, tier.Options{Local: local, MaxBytes: 4 << 20, Prompt: true, Nodes: 3, Timeout: time.Second})
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
			l := compiled(t, weir.PerHour(limit, algorithm.FixedWindow), leasedOr(weir.OnErrorDeny))
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
