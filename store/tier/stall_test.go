package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/tier"
)

// stalls are what a store does while it is asked.
type stalls struct {
	// rate is how many units a second are asked of each node, for as long as lasts.
	rate  int
	lasts time.Duration
	// fault begins one of times faults and returns what ends it.
	times int
	fault func() (end func())
	// after is how long a fault lasts at most.
	longest time.Duration
}

// run offers a limit per hour to nodes while the store stands still now and then, and
// then as much as there may be left. It returns how many units were admitted.
func (f *stalls) run(t *testing.T, nodes []*tier.Store, l *weir.Limit, seed uint64) int64 {
	t.Helper()
	var admitted atomic.Int64
	ask := func(s *tier.Store) bool {
		d, err := s.TakeOne(context.Background(), "k", l, 1)
		if err != nil {
			t.Errorf("%v", err)
		}
		if d.Allowed() {
			admitted.Add(1)
		}
		return d.Allowed()
	}
	var wg sync.WaitGroup
	begin := time.Now()
	for _, s := range nodes {
		for range 4 {
			wg.Go(func() {
				tick := time.NewTicker(4 * time.Second / time.Duration(f.rate))
				defer tick.Stop()
				for time.Since(begin) < f.lasts {
					<-tick.C
					ask(s)
				}
			})
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range f.times {
		at := f.lasts * time.Duration(i) / time.Duration(f.times)
		time.Sleep(time.Until(begin.Add(at + time.Duration(rnd.Int64N(int64(f.lasts)/int64(2*f.times))))))
		end := f.fault()
		time.Sleep(5*time.Millisecond + time.Duration(rnd.Int64N(int64(f.longest))))
		end()
	}
	wg.Wait()
	// What is left is asked for until all nodes have refused for a while. (Into a bucket
	// some flows all the time.)
	for refused, stop := 0, time.Now().Add(10*time.Second); refused < 100 && time.Now().Before(stop); {
		passed := false
		for _, s := range nodes {
			for ask(s) {
				passed = true
			}
		}
		if refused++; passed {
			refused = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return admitted.Load()
}

// halting is a store that stands still now and then: what it was sent it carries out
// when it goes on, whoever still waits.
type halting struct {
	weir.Store
	gate atomic.Pointer[chan struct{}]
}

func (h *halting) halt() (goOn func()) {
	gate := make(chan struct{})
	h.gate.Store(&gate)
	return func() {
		h.gate.Store(nil)
		close(gate)
	}
}

func (h *halting) Take(ctx context.Context, ops []weir.Op) error {
	gate := h.gate.Load()
	if gate == nil {
		return h.Store.Take(ctx, ops)
	}
	own, done := slices.Clone(ops), make(chan error, 1)
	go func() {
		<-*gate
		done <- h.Store.Take(context.WithoutCancel(ctx), own)
	}()
	select {
	case err := <-done:
		copy(ops, own)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A node that is killed takes along what it uses in a quarter of a second, or a few
// units.
func TestFamilyKilledNodeLosesAQuarterOfASecond(t *testing.T) {
	for _, a := range lenders() {
		for _, rate := range []int{1, 30, 300, 3000} {
			virtual(t, fmt.Sprint(a.Name(), rate), func(t *testing.T) {
				f := newFleet(t, 3, tier.Options{})
				f.shared.delay.Store(int64(time.Millisecond))
				l := compiled(t, weir.PerHour(1_000_000, a), leased)
				rnd := rand.New(rand.NewPCG(uint64(rate), 0))
				most := int64(0)
				ask := func(rate int, lasts time.Duration) {
					for end := time.Now().Add(lasts); time.Now().Before(end); {
						time.Sleep(time.Duration(rnd.Int64N(int64(2*time.Second) / int64(rate))))
						f.take(f.nodes[0], "k", l, 1)
						most = max(most, f.nodes[0].Stats().LeaseUnits)
					}
				}
				ask(rate, 10*time.Second)
				if bound := max(int64(rate)/4, 16+4); most > bound {
					t.Errorf("%d units a second, and %d were held, want at most %d", rate, most, bound)
				}
				// So it is soon after the rate has fallen.
				ask(max(rate/10, 1), 2*time.Second)
				most = 0
				ask(max(rate/10, 1), 2*time.Second)
				if bound := max(int64(rate)/40, 16+4); most > bound {
					t.Errorf("%d units a second after ten times as many, and %d were held, want at most %d", rate/10, most, bound)
				}
			})
		}
	}
}

// Three and five nodes on a store that stands still again and again use what there is
// of a leased limit: what is answered late is taken over.
func TestFamilyStallsLoseNothing(t *testing.T) {
	for seed := range drawn(t, 2, 100) {
		for i, a := range lending {
			for _, prompt := range []bool{false, true} {
				if testing.Short() && prompt != (i%2 == 0) {
					continue
				}
				virtual(t, fmt.Sprint(a.Name(), seed, prompt), func(t *testing.T) {
					f := newFleet(t, 3+2*int(seed%2), tier.Options{Prompt: prompt})
					halting := &halting{Store: f.shared.Store}
					f.shared.Store = halting
					f.shared.delay.Store(int64(time.Millisecond))
					s := &stalls{rate: 500, lasts: 20 * time.Second, times: 10, longest: 395 * time.Millisecond, fault: halting.halt}
					l := compiled(t, weir.PerHour(20_000, a), leasedOr(weir.OnErrorDeny))
					begin := time.Now()
					n, most := s.run(t, f.nodes, l, seed), l.Count
					if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
						most += int64(float64(l.Count)*time.Since(begin).Hours()) + 1
					}
					t.Logf("%d of %d", n, most)
					if n > most || n < l.Count*95/100 {
						t.Errorf("%d admitted of %d", n, most)
					}
				})
			}
		}
	}
}

func leasedOr(p weir.StoreErrorPolicy) func(*weir.Limit) {
	return func(l *weir.Limit) {
		leased(l)
		l.Consistency.OnStoreError = p
	}
}

// The same with real servers that are stopped and go on: a single one with three and
// with five nodes, all of a ring, and all of a cluster.
func TestFamilyStallsLoseNothingOnRedis(t *testing.T) {
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
			var nodes []*tier.Store
			for range kind.nodes {
				nodes = append(nodes, nodeAt(t, url, tier.Options{Nodes: kind.nodes}))
			}
			l := compiled(t, weir.PerHour(limit, kind.algorithm), leasedOr(weir.OnErrorDeny))
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
