package redis

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/servertest"
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
			hash := with.hash(fmt.Sprint("user:", i))
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
		its[key] = s.nodes.place(key).server == lost
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

// With ring_on_loss=policy the keys of a lost server wait for it.
func TestRingWaits(t *testing.T) {
	t.Parallel()
	servers := newRing(t, 2)
	s := open(t, urlOf("redis+ring", servers)+"?ring_on_loss=policy", Options{Timeout: long})
	l := perHour(t, 5, algorithm.TokenBucket)
	key := ""
	for i := range 1000 {
		if key = fmt.Sprint(i); s.nodes.place(key).server.host == servers[1].Addr {
			break
		}
	}
	if _, err := s.TakeOne(t.Context(), key, l, 1); err != nil {
		t.Fatal(err)
	}
	servers[1].Kill(t)
	for range 2 * failuresInRow {
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
