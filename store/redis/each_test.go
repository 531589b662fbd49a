package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
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
	// atOnce reports whether all servers have charged cost units before the first has
	// answered.
	left := int64(51)
	atOnce := func(v weir.Verb, cost int64) bool {
		for _, p := range proxies {
			p.Stall(servertest.Replies, true)
		}
		answer := make(chan error, 1)
		go func() { answer <- ask(v, cost) }()
		if left += cost; v == weir.Force {
			left -= 2 * cost
		}
		all := false
		for end := time.Now().Add(time.Second); !all && time.Now().Before(end); time.Sleep(time.Millisecond) {
			all = done(left) == keys
		}
		for _, p := range proxies {
			p.Stall(servertest.Replies, false)
		}
		if err := <-answer; err != nil || done(left) != keys {
			t.Errorf("verb %d: %d of %d keys are charged: %v", v, done(left), keys, err)
		}
		return all
	}
	// A connection on which a ping of the client waits for its answer sends nothing else.
	const attempts = 10
	for _, x := range []struct {
		verb weir.Verb
		cost int64
	}{{weir.Refund, 4}, {weir.Force, 1}, {weir.Refund, 2}} {
		tried := 1
		for ; !atOnce(x.verb, x.cost) && tried < attempts; tried++ {
		}
		if tried == attempts {
			t.Errorf("verb %d: the servers are asked one after the other", x.verb)
		}
	}
}
