package redis

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyGivenBackOnce gives units back on one server if a mark on another allows,
// as the settling of a reservation does, and asks again after each error. The
// connection to the one or the other is cut after any number of bytes, so that a call
// was carried out and nobody heard: units are given back once at most.
func TestFamilyGivenBackOnce(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	proxies := []*servertest.Proxy{servertest.NewProxy(t, servers[0].Addr), servertest.NewProxy(t, servers[1].Addr)}
	s := open(t, "redis+ring://"+proxies[0].Addr+","+proxies[1].Addr, Options{Timeout: long})
	mark := perHour(t, 1, algorithm.FixedWindow)
	mark.Scope = "mark"
	l := perHour(t, 1000, algorithm.FixedWindow)
	log := perHour(t, 100, algorithm.SlidingLog)
	for _, m := range []*weir.Limit{mark, l, log} {
		if err := m.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	at := func(server, i int, name string) string {
		for n := 0; ; n++ {
			if key := fmt.Sprint(name, i, "-", n); s.nodes.routeTag(tagForKey(key)).server == s.nodes.(*ring).servers[server] {
				return key
			}
		}
	}
	cuts, failed := int64(140), 0
	if testing.Short() {
		cuts = 40
	}
	for cut := range cuts {
		for server := range 2 {
			i := int(cut)*2 + server
			// A log on the server of the mark makes it the place that comes last.
			marked, logged, first, second := at(0, i, "mark"), at(0, i, "log"), at(1, i, "a"), at(i/2%2, i, "b")
			must := func(ops ...weir.Op) {
				t.Helper()
				for j := range ops {
					// The client may find only now that it was cut off. What is spent twice
					// leaves less.
					servertest.Await(t, "a spend", func() bool { return s.Take(t.Context(), ops[j:j+1]) == nil })
				}
			}
			must(weir.Op{Key: first, Limit: l, Cost: 500}, weir.Op{Key: second, Limit: l, Cost: 500}, weir.Op{Key: logged, Limit: log, Cost: 50})
			proxies[server].CutAfter(cut * 3 / 2)
			for range 5 {
				ops := []weir.Op{
					{Key: marked, Limit: mark, Cost: 1},
					{Key: first, Limit: l, Cost: 100, Role: weir.Always, Verb: weir.Refund},
					{Key: second, Limit: l, Cost: 100, Role: weir.Always, Verb: weir.Refund},
				}
				if i%3 == 0 {
					ops = append(ops, weir.Op{Key: logged, Limit: log, Cost: 10, Role: weir.Always, Verb: weir.Refund})
				}
				err := s.Take(t.Context(), ops)
				if err == nil {
					break
				}
				failed++
			}
			proxies[server].CutAfter(-1)
			for key, k := range map[string]*weir.Limit{first: l, second: l, logged: log} {
				var got int64
				servertest.Await(t, "a look", func() bool {
					ops := []weir.Op{{Key: key, Limit: k, Verb: weir.Peek}}
					err := s.Take(t.Context(), ops)
					got = ops[0].Decision.Remaining
					return err == nil
				})
				if most := k.Count * 6 / 10; got > most {
					t.Errorf("server %d cut after %d bytes: %d of %s remain, at most %d can", server, cut*3/2, got, key, most)
				}
			}
		}
	}
	if failed == 0 {
		t.Error("nothing was cut")
	}
	t.Logf("%d calls failed", failed)
}
