package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/servertest"
)

// What is given back in several places, and costs that were incurred, are sent to all of
// them at once: each server has carried out its part before any has answered.
func TestFamilyReturnsInManyPlaces(t *testing.T) {
	t.Parallel()
	var hosts []string
	var proxies []*servertest.Proxy
	var servers []*Store
	for _, r := range newRing(t, 4) {
		p := servertest.NewProxy(t, r.Addr)
		hosts, proxies = append(hosts, p.Addr), append(proxies, p)
		servers = append(servers, open(t, "redis://"+r.Addr, Options{Timeout: long, Prefix: "apart"}))
	}
	s := open(t, "redis+ring://"+strings.Join(hosts, ","), Options{Timeout: long, Prefix: "apart"})
	l := perHour(t, 100, algorithm.FixedWindow)
	const keys = 16
	ask := func(v weir.Verb, cost int64) error {
		ops := make([]weir.Op, keys)
		for i := range ops {
			ops[i] = weir.Op{Key: fmt.Sprint("key", i), Limit: l, Cost: cost, Role: weir.Always, Verb: v}
		}
		return s.Take(t.Context(), ops)
	}
	// done returns how many keys have so much left on the server that keeps them.
	done := func(want int64) (n int) {
		for i := range keys {
			left := l.Count
			for _, r := range servers {
				left = min(left, remaining(t, r, fmt.Sprint("key", i), l))
			}
			if left == want {
				n++
			}
		}
		return n
	}
	if err := ask(weir.Force, 50); err != nil || done(50) != keys {
		t.Fatalf("%d of %d keys were charged: %v", done(50), keys, err)
	}
	// Servers that do not know a script say so first.
	if err := ask(weir.Refund, 1); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		verb       weir.Verb
		cost, left int64
	}{{weir.Refund, 4, 55}, {weir.Force, 1, 54}, {weir.Refund, 6, 60}} {
		for _, p := range proxies {
			p.Stall(servertest.Replies, true)
		}
		answer := make(chan error, 1)
		go func() { answer <- ask(x.verb, x.cost) }()
		n := 0
		for end := time.Now().Add(long / 2); n < keys && time.Now().Before(end); time.Sleep(time.Millisecond) {
			n = done(x.left)
		}
		if n != keys {
			t.Errorf("verb %d: %d of %d keys are charged before the first server has answered", x.verb, n, keys)
		}
		for _, p := range proxies {
			p.Stall(servertest.Replies, false)
		}
		if err := <-answer; err != nil {
			t.Errorf("verb %d: %v", x.verb, err)
		}
	}
}
