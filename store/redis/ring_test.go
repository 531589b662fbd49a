package redis

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// ringOf returns a ring of servers that are never asked.
func ringOf(hosts ...string) *ring {
	r := &ring{}
	for _, h := range hosts {
		r.servers = append(r.servers, &server{host: h, salt: saltOf(h)})
	}
	return r
}

func hostsOf(n int) []string {
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("10.0.0.%d:6379", i)
	}
	return hosts
}

// Keys are spread evenly, and a server that joins or leaves moves its share of
// them and no other: 1/n of them, and all to it or from it.
func TestRingMovesItsShareOnly(t *testing.T) {
	const keys = 200_000
	for _, n := range []int{2, 3, 10, 50} {
		without, with := ringOf(hostsOf(n)...), ringOf(hostsOf(n+1)...)
		joined := with.servers[n].host
		counts := map[string]int{}
		moved := 0
		for i := range keys {
			hash := with.hashTag(fmt.Sprint("user:", i))
			before, _ := without.owners(hash)
			after, _ := with.owners(hash)
			counts[after.host]++
			if before.host == after.host {
				continue
			}
			if moved++; after.host != joined {
				t.Fatalf("%d servers: a key moved from %s to %s when %s joined", n, before.host, after.host, joined)
			}
		}
		share := float64(moved) / keys
		want := 1 / float64(n+1)
		t.Logf("%d servers, and one more: %.2f %% of the keys moved, %.2f %% is its share", n, 100*share, 100*want)
		// Four standard deviations of a fair draw.
		slack := 4 * math.Sqrt(want*(1-want)/keys)
		if math.Abs(share-want) > slack {
			t.Errorf("%d servers: %.4f of the keys moved, want %.4f", n, share, want)
		}
		for host, got := range counts {
			if math.Abs(float64(got)/keys-want) > slack {
				t.Errorf("%d servers: %s keeps %.4f of the keys, want %.4f", n+1, host, float64(got)/keys, want)
			}
		}
	}
}

// While a server is lost others keep its keys: fresh, and said to be so. When it is
// back so are its keys.
func TestRingLosesAServer(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 3)
	s := open(t, urlOf("redis+ring", servers), Options{Timeout: long})
	l := perHour(t, 1, algorithm.TokenBucket)
	const keys = 60
	lost := s.nodes.(*ring).servers[0]
	its := map[string]bool{}
	for i := range keys {
		key := fmt.Sprint("user:", i)
		if d, err := s.TakeOne(t.Context(), key, l, 1); err != nil || !d.Allowed() || d.Limit != l {
			t.Fatalf("%+v, %v", d, err)
		}
		its[key] = s.nodes.routeTag(key).server == lost
	}
	servers[0].Kill(t)
	servertest.Await(t, "the breaker to open", func() bool {
		for key, mine := range its {
			if !mine {
				continue
			}
			if _, err := s.TakeOne(t.Context(), key, l, 0); err == nil {
				return true
			}
		}
		return false
	})
	counted := 0
	for key, mine := range its {
		if (driver{s}.Part(key) < 0) != mine {
			t.Errorf("%s, of the lost server %v, is of part %d", key, mine, driver{s}.Part(key))
		}
		d, err := s.TakeOne(t.Context(), key, l, 1)
		if err != nil {
			t.Fatal(err)
		}
		g := d.Guarantee()
		if d.Allowed() != mine || g.Degraded != mine || (g.Source == weir.FromSuccessor) != mine {
			t.Errorf("%s, of the lost server %v: %+v, %s", key, mine, d, g)
		}
		if mine {
			counted++
		}
	}
	st := s.Stats()
	if counted < keys/10 || st.Moved < uint64(counted) || st.Servers != 3 || st.LostServers != 1 {
		t.Errorf("%d keys of the lost server, %+v", counted, st)
	}
	servers[0].Restart(t)
	servertest.Await(t, "the server to be found", func() bool { return s.Stats().LostServers == 0 })
	for key := range its {
		d, err := s.TakeOne(t.Context(), key, l, 0)
		if err != nil || d.Limit != l || (d.Remaining == 1) != its[key] {
			t.Errorf("%s, of the server that is back %v: %+v, %v", key, its[key], d, err)
		}
	}
}

// TestRingPins: no other server decides the keys of a pinned limit, alone and beside keys of
// other limits, and nothing of the request is charged. The mark of a reservation is one:
// on a second server it would be settled a second time.
func TestRingPins(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers), Options{Timeout: long})
	moves, pinned := perHour(t, 5, algorithm.FixedWindow), &weir.Limit{Name: "pinned", Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Hour,
		Consistency: params.Consistency{Pinned: true}}
	if err := pinned.Compile(); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{} // by their server
	for i := 0; len(keys) < 2; i++ {
		key := fmt.Sprint("user:", i)
		keys[s.nodes.routeTag(key).server.host] = key
	}
	here, gone := keys[servers[0].Addr], keys[servers[1].Addr]
	servers[1].Kill(t)
	servertest.Await(t, "the server to be lost", func() bool {
		_, err := s.TakeOne(t.Context(), gone, moves, 0)
		return err == nil
	})
	if _, err := s.TakeOne(t.Context(), gone, pinned, 1); !errors.Is(err, errLost) {
		t.Errorf("alone: %v", err)
	}
	for _, verb := range []weir.Verb{weir.Spend, weir.Refund} {
		ops := []weir.Op{{Key: here, Limit: moves, Cost: 1, Verb: verb}, {Key: gone, Limit: pinned, Cost: 1}}
		if err := s.Take(t.Context(), ops); !errors.Is(err, errLost) {
			t.Errorf("beside a %s: %v", verb, err)
		}
	}
	if d, err := s.TakeOne(t.Context(), here, moves, 0); err != nil || d.Remaining != 5 {
		t.Errorf("what is beside it was charged: %+v, %v", d, err)
	}
	if d, err := s.TakeOne(t.Context(), here, pinned, 1); err != nil || d.Remaining != 4 {
		t.Errorf("on a server that is there: %+v, %v", d, err)
	}
	servers[1].Restart(t)
	servertest.Await(t, "the server to be found", func() bool {
		d, err := s.TakeOne(t.Context(), gone, pinned, 0)
		return err == nil && d.Remaining == 5
	})
}

// A server that fails most calls, and never five in a row, keeps its keys: others would
// count them from zero.
func TestRingKeepsAServerThatAnswers(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	p := servertest.NewProxy(t, servers[0].Addr)
	s := open(t, "redis+ring://"+p.Addr+","+servers[1].Addr, Options{Timeout: 100 * time.Millisecond})
	l := perHour(t, 1000, algorithm.FixedWindow)
	key := "user:0"
	for i := 1; s.nodes.routeTag(key).server != s.nodes.(*ring).servers[0]; i++ {
		key = fmt.Sprint("user:", i)
	}
	failed := 0
	for range 8 {
		p.Stall(servertest.Replies, true)
		for range 3 {
			if _, err := s.TakeOne(t.Context(), key, l, 1); err != nil {
				failed++
			}
		}
		p.Stall(servertest.Replies, false)
		if _, err := s.TakeOne(t.Context(), key, l, 1); err != nil {
			failed++
		}
	}
	if st := s.Stats(); failed < 20 || st.LostServers != 0 || st.Moved != 0 {
		t.Errorf("%d failed, %+v", failed, st)
	}
}

// With ring_on_loss=policy the keys of a lost server wait for it.
func TestRingWaits(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers)+"?ring_on_loss=policy", Options{Timeout: long})
	l := perHour(t, 5, algorithm.TokenBucket)
	key := ""
	for i := range 1000 {
		if key = fmt.Sprint(i); s.nodes.routeTag(key).server.host == servers[1].Addr {
			break
		}
	}
	if _, err := s.TakeOne(t.Context(), key, l, 1); err != nil {
		t.Fatal(err)
	}
	servers[1].Kill(t)
	for range 2 * 5 {
		if _, err := s.TakeOne(t.Context(), key, l, 1); err == nil {
			t.Fatal("another server decided")
		}
	}
	if _, err := s.TakeOne(t.Context(), key, l, 1); !contains(err, "ring_on_loss") {
		t.Errorf("a lost server: %v", err)
	}
	servers[1].Restart(t)
	servertest.Await(t, "the server to be found", func() bool {
		_, err := s.TakeOne(t.Context(), key, l, 1)
		return err == nil
	})
}

// A ring of which a server is away is opened if it may be, without that server; one with a
// server that cannot be used is not.
func TestRingOpensWithoutAServer(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 3)
	servers[1].Kill(t)
	url := urlOf("redis+ring", servers)
	if _, err := Open(t.Context(), url, Options{Timeout: long}); !contains(err, servers[1].Addr) || !contains(err, "nobody listens") {
		t.Errorf("a ring without a server: %v", err)
	}
	for _, wait := range []bool{false, true} {
		policy := map[bool]string{true: "?ring_on_loss=policy"}[wait]
		s := open(t, url+policy, Options{Timeout: long, Late: true})
		if st := s.Stats(); st.Servers != 3 || st.LostServers != 1 {
			t.Fatalf("%+v", st)
		}
		l := perHour(t, 1, algorithm.TokenBucket)
		missing := 0
		for i := range 60 {
			key := fmt.Sprint("user:", wait, i)
			own, _ := s.nodes.(*ring).owners(s.nodes.(*ring).hashTag(tagForKey(key)))
			its := own.host == servers[1].Addr
			d, err := s.TakeOne(t.Context(), key, l, 1)
			_, _, inspected := s.Inspect(t.Context(), key, l)
			switch {
			case its && wait:
				missing++
				if !contains(err, "ring_on_loss") || !contains(inspected, "ring_on_loss") {
					t.Errorf("%s: %v, %v", key, err, inspected)
				}
			case err != nil || inspected != nil || !d.Allowed() || d.Guarantee().Degraded != its:
				t.Errorf("%s, of the lost server %v: %+v, %v, %v", key, its, d, err, inspected)
			case its:
				missing++
			}
		}
		if missing < 6 {
			t.Errorf("only %d keys are the lost server's", missing)
		}
		servers[1].Restart(t)
		servertest.Await(t, "the server to be found", func() bool { return s.Stats().LostServers == 0 })
		each(64, func(i int) {
			d, err := s.TakeOne(t.Context(), fmt.Sprint("again:", wait, i), l, 1)
			if err != nil || !d.Allowed() || d.Limit != l {
				t.Errorf("with all servers: %+v, %v", d, err)
			}
		})
		if countersOf(t, servers[1]) == 0 {
			t.Error("the server that is back keeps nothing")
		}
		servers[1].Kill(t)
	}
	secret := servertest.RedisPassword(t, "secret")
	if _, err := Open(t.Context(), "redis+ring://"+servers[0].Addr+","+secret.Addr, Options{Timeout: long, Late: true}); !contains(err, "password") || Unreachable(err) {
		t.Errorf("a ring with a server that wants a password: %v", err)
	}
}
