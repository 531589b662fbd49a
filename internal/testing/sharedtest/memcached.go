package sharedtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
)

// memcachedNode returns a node over Memcached.
func memcachedNode(t *testing.T, newNode New, timeout time.Duration, addrs ...string) Node {
	t.Helper()
	shared, err := memcached.New(memcached.Options{Servers: addrs, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	s, err := newNode(shared, Options{Local: local, Timeout: timeout, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s, shared, local)
	return s
}

// A store that can do nothing but count has no register of nodes: it decides all
// the same, and the nodes are those that are configured.
func testCountingStore(t *testing.T, newNode New) {
	addr, _ := servertest.Memcached(t, "")
	opt, err := memcached.ParseURL("memcached://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	opt.Timeout = 5 * time.Second
	shared, err := memcached.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	f := &fleet{T: t}
	for range 2 {
		local := memory.New(memory.Options{MaxBytes: 1 << 20})
		s, err := newNode(shared, Options{Local: local, Nodes: 2, Timeout: 5 * time.Second, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, s)
		t.Cleanup(func() {
			for _, c := range []weir.Store{s, local} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		l := weir.PerDay(200, algorithm.FixedWindow)
		l.Name, l.Consistency.Mode = "counted "+m.String(), m
		compiled(t, l, nil)
		passed := 0
		for n := range 600 {
			d := f.take(f.nodes[n%2], "k", l, 1)
			if d.Guarantee().Degraded {
				t.Fatalf("%s: %+v", m, d)
			}
			if d.Allowed() {
				passed++
			}
		}
		// What the other node holds is not lost, but comes back when it is idle.
		if passed > 200 || passed < 150 {
			t.Errorf("%s: %d of 200 passed", m, passed)
		}
	}
	if st := f.nodes[0].Stats(); st.BreakerOpen || st.Nodes != 2 {
		t.Errorf("%+v", st)
	}
}

// One of two servers is killed or stands still: what is kept on the other is decided
// there as ever, also after many failures of the first. When both are gone the store is
// out, and it is back with them.
func testMemcachedServers(t *testing.T, newNode New) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			well, p := servertest.Memcached(t, "")
			ill, q := servertest.Memcached(t, "")
			s := memcachedNode(t, newNode, 200*time.Millisecond, well, ill)
			l := compiled(t, weir.PerDay(1_000_000, algorithm.FixedWindow), func(l *weir.Limit) {
				strict(l)
				l.Consistency.OnStoreError = params.OnErrorDeny
			})
			if err := q.Signal(sig); err != nil {
				t.Fatal(err)
			}
			byPolicy := func(key string) bool {
				d, err := s.TakeOne(context.Background(), key, l, 1)
				if err != nil {
					t.Fatal(err)
				}
				return d.Guarantee().Degraded
			}
			var there []string
			gone := 0
			for n := range 40 {
				if key := fmt.Sprint(n); byPolicy(key) {
					gone++
				} else {
					there = append(there, key)
				}
			}
			if gone < 10 || len(there) < 10 || s.Stats().BreakerOpen {
				t.Fatalf("%d keys are decided by policy, %d are not: %v; %+v", gone, len(there), there, s.Stats())
			}
			for n := range 40 {
				byPolicy(fmt.Sprint("other ", n))
			}
			for _, key := range there {
				if byPolicy(key) {
					t.Errorf("%s is decided by policy, and its server is well", key)
				}
			}
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
			servertest.Await(t, "the store to be away", func() bool {
				byPolicy("any")
				for _, key := range there {
					byPolicy(key)
				}
				return s.Stats().BreakerOpen
			})
			if sig != syscall.SIGSTOP {
				return
			}
			for _, p := range []*servertest.Process{p, q} {
				if err := p.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			servertest.Await(t, "the store to be back", func() bool {
				for n := range 40 {
					if byPolicy(fmt.Sprint(n)) {
						return false
					}
				}
				return !s.Stats().BreakerOpen
			})
		})
	}
}

// Limits that Memcached cannot keep, as ones that come with a request may be, are
// decided by policy, however many there are: no breaker opens for the others.
func testMemcachedLimits(t *testing.T, newNode New) {
	addr, _ := servertest.Memcached(t, "")
	s := memcachedNode(t, newNode, 5*time.Second, addr)
	well := compiled(t, weir.PerDay(1000, algorithm.FixedWindow), strict)
	for _, l := range []*weir.Limit{
		weir.PerHour(5, algorithm.SlidingWindow), weir.PerHour(5, algorithm.TokenBucket), weir.PerHour(5, algorithm.SlidingLog),
		{Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Hour, Params: params.Params{Anchor: params.AnchorFirst}},
		{Algorithm: algorithm.Concurrency, Count: 5, Period: time.Hour},
	} {
		compiled(t, l, func(l *weir.Limit) {
			strict(l)
			l.Consistency.OnStoreError = params.OnErrorDeny
		})
		for n := range 30 {
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: int64(n + 1)}}
			if n%2 == 1 {
				ops = append(ops, weir.Op{Key: "k", Limit: l, Cost: 1, ID: int64(n + 1), Role: weir.Always, Verb: weir.Peek})
			}
			if err := s.Take(context.Background(), ops); err == nil && weir.Fold(ops).Allowed() {
				t.Errorf("%s: allowed", l.Name)
			}
		}
		if d, err := s.TakeOne(context.Background(), "k", well, 1); err != nil || d.Guarantee().Degraded || s.Stats().BreakerOpen {
			t.Fatalf("after %s: %+v, %v, away %v", l.Name, d, err, s.Stats().BreakerOpen)
		}
	}
}

// More callers than there are connections to a server that is slow and well: those who
// get none in time are decided by policy, and no breaker opens for it.
func testMemcachedConnections(t *testing.T, newNode New) {
	for _, conns := range []int{1, 8} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			t.Parallel()
			lackConnections(t, newNode, conns)
		})
	}
}

func lackConnections(t *testing.T, newNode New, conns int) {
	addr, _ := servertest.Memcached(t, "")
	p := servertest.NewProxy(t, addr)
	shared, err := memcached.New(memcached.Options{Servers: []string{p.Addr}, Timeout: 2 * time.Second, MaxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	s, err := newNode(shared, Options{Local: local, Timeout: 2 * time.Second, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s, shared, local)
	p.Delay(servertest.Replies, 100*time.Millisecond)
	l := compiled(t, weir.PerDay(1_000_000, algorithm.FixedWindow), strict)
	var byPolicy, decided atomic.Int64
	var wg sync.WaitGroup
	for n := range 60 * conns {
		wg.Go(func() {
			d, err := s.TakeOne(context.Background(), fmt.Sprint(n), l, 1)
			switch {
			case err != nil:
				t.Error(err)
			case d.Guarantee().Degraded:
				byPolicy.Add(1)
			default:
				decided.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d by policy, %d by Memcached", byPolicy.Load(), decided.Load())
	if s.Stats().BreakerOpen || byPolicy.Load() == 0 || decided.Load() == 0 {
		t.Errorf("away %v, %d by policy, %d by Memcached", s.Stats().BreakerOpen, byPolicy.Load(), decided.Load())
	}
}
