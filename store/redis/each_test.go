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

// What is given back in several places, and costs that were incurred, take as long as
// the slowest place, not as long as all one after the other.
func TestFamilyReturnsInManyPlaces(t *testing.T) {
	t.Parallel()
	const trip = 300 * time.Millisecond
	var hosts []string
	var proxies []*servertest.Proxy
	for _, r := range newRing(t, 4) {
		p := servertest.NewProxy(t, r.Addr)
		hosts, proxies = append(hosts, p.Addr), append(proxies, p)
	}
	s := open(t, "redis+ring://"+strings.Join(hosts, ","), Options{Timeout: long})
	l := perHour(t, 100, algorithm.FixedWindow)
	const keys = 16
	ask := func(v weir.Verb, cost int64) []weir.Op {
		ops := make([]weir.Op, keys)
		for i := range ops {
			ops[i] = weir.Op{Key: fmt.Sprint("key", i), Limit: l, Cost: cost, Role: weir.Always, Verb: v}
		}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		return ops
	}
	ask(weir.Force, 50)
	for _, p := range proxies {
		p.Delay(servertest.Requests, trip)
	}
	shortest := time.Hour
	for range 3 {
		begin := time.Now()
		ask(weir.Refund, 5)
		shortest = min(shortest, time.Since(begin))
	}
	if shortest > 3*trip {
		t.Errorf("what is given back on four servers took %s, of which a call takes %s", shortest, trip)
	}
	for _, p := range proxies {
		p.Delay(servertest.Requests, 0)
	}
	for i, o := range ask(weir.Force, 1) {
		if o.Decision.Remaining != 100-50+3*5-1 {
			t.Errorf("key%d: %+v", i, o.Decision)
		}
	}
}
