package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// pair is nodes behind proxies to a primary whose replica can take its place.
type pair struct {
	*stage
	replica *servertest.RedisServer
}

func newPair(t *testing.T, ahead time.Duration, descriptors []string) *pair {
	t.Helper()
	primary := servertest.Redis(t)
	host, port, _ := strings.Cut(primary.Addr, ":")
	follow := []string{"--replicaof", host + " " + port}
	p := &pair{stage: &stage{T: t, redis: primary, file: rules(t, descriptors...)}}
	if ahead == 0 {
		p.replica = servertest.Redis(t, follow...)
	} else {
		p.replica = servertest.RedisClock(t, ahead, follow...)
	}
	servertest.Await(t, "the replica to follow", func() bool { return p.replica.Fact(t, "master_link_status") == "up" })
	for range 2 {
		proxy := servertest.NewProxy(t, primary.Addr)
		p.proxies = append(p.proxies, proxy)
		p.nodes = append(p.nodes, serve(t, fmt.Sprintf("redis://%s?timeout=%s", proxy.Addr, 5*time.Second), p.file, "--store-nodes", "2"))
	}
	return p
}

// detach makes the replica a primary of its own, once it has heard all: what is
// written from now on is lost.
func (p *pair) detach() {
	servertest.Await(p.T, "the replica to have heard all", func() bool {
		return p.replica.Fact(p.T, "slave_repl_offset") == p.redis.Fact(p.T, "master_repl_offset")
	})
	p.replica.Do(p.T, "REPLICAOF", "NO", "ONE")
}

// failOver kills the primary and leads its nodes to the replica.
func (p *pair) failOver() {
	p.redis.Kill(p.T)
	for _, proxy := range p.proxies {
		proxy.Target(p.replica.Addr)
		proxy.Reset()
	}
}

// A failover that loses the last writes admits again at most what they counted.
func TestFailoverLosesWrites(t *testing.T) {
	processes(t)
	p := newPair(t, 0, stageRules(count))
	p.load(p.nodes, 120, 5)
	p.detach()
	var holds [3]float64
	lost := p.load(p.nodes, 60, 5)
	for _, n := range p.nodes {
		// Fetched and not spent: that may be counted on the lost server alone.
		holds[1] += n.metric(t, "weir_shared_store_lease_units")
	}
	p.failOver()
	p.exactAgain()
	p.load(p.nodes, 6*count, 10)
	for i, c := range faultModes {
		passed, gone := float64(p.passed[i].allowed.Load()), float64(lost[i].allowed.Load())+holds[i]
		most := count*(1+c.over) + gone
		t.Logf("%s: %.0f passed, the limit is %d, at most %.0f were lost", c.key(), passed, count, gone)
		if passed > most || passed < count*0.5 {
			t.Errorf("%s: %.0f passed, want at most %g", c.key(), passed, most)
		}
		if c.mode == "strict" && passed <= count {
			t.Errorf("%s: nothing was lost: nothing was tested", c.key())
		}
	}
}

// A failover to a server whose clock is five seconds off. Ahead: one burst, or one
// window, is given too many. Behind: nothing, and a bucket is locked out for at most
// the time in which twice its burst flows in, a window for as much longer as the clock
// is behind.
func TestFailoverToAnotherClock(t *testing.T) {
	processes(t)
	const limit, period, off = 300, 2 * time.Second, 5 * time.Second
	var all []cell
	var descriptors []string
	for _, mode := range []string{"strict", "leased", "eventual"} {
		for _, a := range []string{"token_bucket", "fixed_window"} {
			c := cell{algorithm: a, mode: mode}
			if mode == "eventual" {
				c.over = overshoot
			}
			all = append(all, c)
			descriptors = append(descriptors, c.descriptor(limit, "2s"))
		}
	}
	for _, ahead := range []time.Duration{-off, off} {
		t.Run(fmt.Sprint("ahead ", ahead), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, ahead, descriptors)
			begin := time.Now()
			passed := make([]asked, len(all))
			for i, c := range all {
				passed[i].add(offer(t, p.nodes, c.key(), 2*limit, 10))
			}
			p.detach()
			p.failOver()
			failed := time.Now()
			back := make([]time.Duration, len(all))
			for waiting := true; waiting && time.Since(failed) < period+off+time.Minute; {
				waiting = false
				for i, c := range all {
					if back[i] != 0 {
						continue
					}
					a := offer(t, p.nodes, c.key(), limit/10, 10)
					passed[i].add(a)
					if a.allowed.Load() > 0 && a.degraded.Load() == 0 {
						back[i] = time.Since(failed)
						passed[i].add(offer(t, p.nodes, c.key(), 2*limit, 10))
					}
					waiting = waiting || back[i] == 0
				}
			}
			seconds := time.Since(begin).Seconds()
			for i, c := range all {
				n := float64(passed[i].allowed.Load())
				// Bursts, or windows: one more than whole ones fits at either end.
				times, out := seconds/period.Seconds()+1, 2*period
				if c.algorithm == "fixed_window" {
					times, out = float64(int(seconds/period.Seconds())+2), period+off
				}
				if ahead > 0 {
					times++
					out = 0
				}
				most := limit * (1 + c.over) * times
				t.Logf("%s: %.0f passed, at most %.0f; exact again after %s", c.key(), n, most, back[i])
				if n > most || ahead > 0 && n < 1.5*limit {
					t.Errorf("%s: %.0f passed, want at most %.0f", c.key(), n, most)
				}
				// A busy machine takes seconds to connect anew and to ask.
				if back[i] == 0 || back[i] > out+30*time.Second {
					t.Errorf("%s: locked out %s after the failover, want at most %s", c.key(), max(back[i], time.Since(failed)), out)
				}
			}
		})
	}
}
