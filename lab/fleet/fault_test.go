package fleet

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// budget is the longest that a decision waits for the store here.
const budget = 500 * time.Millisecond

// slack is by how much a busy machine may be late. Who waited for the store itself
// would wait for longer.
const slack = 15 * time.Second

// count is the limit of every rule of a stage.
const count = 400

// stage is two nodes on one store, each behind a proxy of its own, with a limit in
// every mode. While the store is away they refuse, so that whatever is too much is
// seen.
type stage struct {
	*testing.T
	redis   *servertest.RedisServer
	proxies []*servertest.Proxy
	nodes   []*node
	file    string
	// passed is what each limit has admitted, in the order of faultModes.
	passed [3]asked
}

// faultModes are the limits of a stage.
var faultModes = [3]cell{
	{algorithm: "sliding_window", mode: "strict"},
	{algorithm: "fixed_window", mode: "leased"},
	{algorithm: "fixed_window", mode: "eventual", over: overshoot},
}

func stageRules(n int) []string {
	var out []string
	for _, c := range faultModes {
		out = append(out, c.descriptor(n, "year"))
	}
	return out
}

func newStage(t *testing.T) *stage {
	t.Helper()
	// It gives the system what it acknowledges, so that it forgets nothing when it is
	// killed. That the disk has it, on which slow machines wait, only a machine that
	// loses its power needs.
	s := &stage{T: t, redis: servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "no"), file: rules(t, stageRules(count)...)}
	for range 2 {
		p := servertest.NewProxy(t, s.redis.Addr)
		s.proxies = append(s.proxies, p)
		s.nodes = append(s.nodes, serve(t, fmt.Sprintf("redis://%s?timeout=%s", p.Addr, budget), s.file, "--store-nodes", "2"))
	}
	return s
}

// load asks nodes for every limit at once, n checks of each, and returns what came
// of it in the order of faultModes.
func (s *stage) load(nodes []*node, n, checks int) [3]*asked {
	s.Helper()
	var out [3]*asked
	var all sync.WaitGroup
	for i, c := range faultModes {
		all.Go(func() { out[i] = offer(s.T, nodes, c.key(), n, checks) })
	}
	all.Wait()
	for i := range out {
		s.passed[i].add(out[i])
	}
	return out
}

func (s *stage) goroutines() float64 {
	var n float64
	for _, node := range s.nodes {
		n += node.metric(s.T, "go_goroutines")
	}
	return n
}

// exactAgain waits until the store decides again for every limit on every node, and
// fails unless it does within a second, and what a busy machine takes.
func (s *stage) exactAgain() {
	s.Helper()
	back := time.Now()
	for i, n := range s.nodes {
		for _, c := range faultModes {
			tries := 0
			servertest.Await(s.T, "an exact decision", func() bool {
				// A client that was never seen: nothing that the node holds decides it.
				tries++
				var a asked
				a.askFor(s.T, n, c.key(), fmt.Sprint("new", i, tries), 1)
				return a.degraded.Load() == 0
			})
		}
	}
	took := time.Since(back)
	s.Logf("exact again after %s", took.Round(time.Millisecond))
	if took > time.Second+slack {
		s.Errorf("the first exact decisions came %s after the store was back, want a second", took)
	}
}

// fault is something that goes wrong, and how it ends.
type fault struct {
	name         string
	begin, end   func(*stage)
	during       func(*stage) // again and again under load, if not nil
	away         bool         // nothing can be asked meanwhile: some are decided by policy
	least        float64      // part of each limit that passes all the same
	nodesThatAsk int          // the nodes that the fault concerns; 0 means all
}

var faults = []fault{
	{name: "killed", away: true, least: 0.5,
		begin: func(s *stage) { s.redis.Kill(s.T) },
		end:   func(s *stage) { s.redis.Restart(s.T) }},
	{name: "stalled", away: true, least: 0.5,
		begin: func(s *stage) { s.signal(syscall.SIGSTOP) },
		end:   func(s *stage) { s.signal(syscall.SIGCONT) }},
	{name: "slow", away: true, least: 0.5,
		begin: func(s *stage) { s.each(func(p *servertest.Proxy) { p.Delay(servertest.Replies, 2*budget) }) },
		end:   func(s *stage) { s.each(func(p *servertest.Proxy) { p.Delay(servertest.Replies, 0) }) }},
	{name: "answers lost", away: true, least: 0.5,
		begin: func(s *stage) { s.each(func(p *servertest.Proxy) { p.Stall(servertest.Replies, true) }) },
		end:   func(s *stage) { s.each(func(p *servertest.Proxy) { p.Stall(servertest.Replies, false) }) }},
	{name: "connections cut", least: 0.5,
		during: func(s *stage) { s.each(func(p *servertest.Proxy) { p.CutAfter(501) }) },
		end:    func(s *stage) { s.each(func(p *servertest.Proxy) { p.CutAfter(-1) }) }},
	{name: "connections reset", least: 0.5,
		during: func(s *stage) { s.each((*servertest.Proxy).Reset) }},
	{name: "connections half closed", least: 0.5,
		during: func(s *stage) { s.each((*servertest.Proxy).HalfClose) }},
	{name: "scripts flushed", least: 0.5,
		during: func(s *stage) { s.redis.Do(s.T, "SCRIPT", "FLUSH") }},
	{name: "memory full", away: true, least: 0.5,
		begin: func(s *stage) { s.redis.Do(s.T, "CONFIG", "SET", "maxmemory", "100kb") },
		end:   func(s *stage) { s.redis.Do(s.T, "CONFIG", "SET", "maxmemory", "0") }},
	{name: "rules reloaded", least: 0.5,
		during: func(s *stage) { s.reload() },
		end:    func(s *stage) { s.reloadTo(count) }},
	{name: "one node cut off", away: true, least: 0.5, nodesThatAsk: 1,
		begin: func(s *stage) { s.proxies[0].Stall(servertest.Requests, true) },
		end:   func(s *stage) { s.proxies[0].Stall(servertest.Requests, false) }},
}

func (s *stage) signal(sig syscall.Signal) {
	if err := s.redis.Signal(sig); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) each(f func(*servertest.Proxy)) {
	for _, p := range s.proxies {
		f(p)
	}
}

func (s *stage) reload() {
	s.reloadTo(count - 1)
	s.reloadTo(count)
}

// reloadTo changes the limits and waits until every node has seen it.
func (s *stage) reloadTo(n int) {
	before := make([]float64, len(s.nodes))
	const loads = `weir_config_reloads_total{result="success"}`
	for i, node := range s.nodes {
		before[i] = node.metric(s.T, loads)
	}
	write(s.T, s.file, stageRules(n)...)
	for i, node := range s.nodes {
		if err := node.Signal(syscall.SIGHUP); err != nil {
			s.Error(err)
		}
		servertest.Await(s.T, "the rules to be reloaded", func() bool { return node.metric(s.T, loads) > before[i] })
	}
}

// Whatever becomes of the store and of the ways to it, under load, in every mode: no
// request fails but by its policy, none takes longer than its budget, nothing piles
// up, decisions are exact again within a second, and never is too much admitted.
func TestFaultsOfTheStore(t *testing.T) {
	processes(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.load(s.nodes, count/5, 1)
			running := s.goroutines()
			results := s.suffer(f)
			var all asked
			for _, a := range results {
				all.add(a)
			}
			t.Logf("with a budget of %s a request took %s at the median, %s at p99, %s at most", budget, all.quantile(0.5), all.quantile(0.99), all.longest())
			if took := all.longest(); took > budget+slack {
				t.Errorf("a decision took %s, with a budget of %s and %s for a busy machine", took, budget, slack)
			}
			if n := s.goroutines() - running; n > 100 {
				t.Errorf("%g goroutines more than before", n)
			}
			for i, a := range results {
				if f.away && i == 0 && a.degraded.Load() == 0 {
					t.Errorf("%s: the store was not missed: nothing was tested", faultModes[i].key())
				}
			}
			if f.end != nil {
				f.end(s)
			}
			s.exactAgain()
			s.exhaust(f.least)
			for i, c := range faultModes {
				passed, most := float64(s.passed[i].allowed.Load()), count*(1+c.over)
				t.Logf("%s: %.0f of %d passed, %d by policy", c.key(), passed, count, s.passed[i].degraded.Load())
				if passed > most || passed < f.least*count {
					t.Errorf("%s: %.0f passed, want %g to %g", c.key(), passed, f.least*count, most)
				}
			}
		})
	}
}

// The same again and again: what goes wrong once in a hundred times goes wrong.
func TestSoakFaultsOfTheStore(t *testing.T) {
	if !soak {
		t.Skip("takes long: set WEIR_SOAK=1")
	}
	for i := range 20 {
		t.Run(fmt.Sprint(i), TestFaultsOfTheStore)
	}
}

// exhaust offers six times the limit, and again for a while if the machine was too
// slow to have least of it decided in time.
func (s *stage) exhaust(least float64) {
	for end := time.Now().Add(time.Minute); ; {
		s.load(s.nodes, 6*count, 10)
		enough := true
		for i := range s.passed {
			enough = enough && float64(s.passed[i].allowed.Load()) >= least*count
		}
		if enough || time.Now().After(end) {
			return
		}
	}
}

// suffer puts load on the nodes while a fault lasts.
func (s *stage) suffer(f fault) [3]*asked {
	if f.begin != nil {
		f.begin(s)
	}
	nodes := s.nodes
	if f.nodesThatAsk > 0 {
		nodes = nodes[:f.nodesThatAsk]
	}
	done := make(chan struct{})
	var acting sync.WaitGroup
	if f.during != nil {
		acting.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
					f.during(s)
				}
			}
		})
	}
	results := s.load(nodes, count/2, 1)
	if f.nodesThatAsk > 0 {
		for i, a := range s.load(s.nodes[f.nodesThatAsk:], count/4, 1) {
			// A busy machine may be late with some.
			if a.degraded.Load() > a.all()/2 || a.allowed.Load() == 0 {
				s.Errorf("%s: %d passed and %d of %d were decided by policy on the node that is not cut off",
					faultModes[i].key(), a.allowed.Load(), a.degraded.Load(), a.all())
			}
		}
	}
	close(done)
	acting.Wait()
	return results
}
