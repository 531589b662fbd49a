package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// logged is a line of a node's log.
type logged struct {
	Level, Msg, Err, Version, After string
	Nodes                           int
}

// lines returns the lines of a node's log whose message has the text in it.
func (n *node) lines(t *testing.T, text string) (out []logged) {
	t.Helper()
	for line := range strings.Lines(n.Output()) {
		var l logged
		if json.Unmarshal([]byte(line), &l) == nil && strings.Contains(l.Msg, text) {
			out = append(out, l)
		}
	}
	return out
}

// The log tells of an outage what is down and what is decided meanwhile, first and
// once; then what follows from it; and once that it is over, and how long it lasted. At
// the start it tells what was reached.
func TestFamilyOutagesAreToldOnce(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	nodes := serveMany(t, 2, "redis://"+redis.Addr, rules(t, faultModes[0].descriptor(count, "year")))
	for i, n := range nodes {
		l := n.lines(t, "store reached")
		if len(l) != 1 || l[0].Level != "INFO" || !strings.HasPrefix(l[0].Version, "Redis ") && !strings.HasPrefix(l[0].Version, "Valkey ") || l[0].Nodes != i+1 && l[0].Nodes != 2 {
			t.Errorf("node %d at the start: %+v", i, l)
		}
	}
	redis.Kill(t)
	const down, stale, back = "shared store unavailable", "operator changes cannot be read", "shared store recovered"
	for _, n := range nodes {
		servertest.Await(t, "the overlay to be missed", func() bool { return len(n.lines(t, stale)) > 0 })
		d, s := n.lines(t, down), n.lines(t, stale)
		if len(d) != 1 || d[0].Level != "ERROR" || len(s) != 1 || s[0].Level != "WARN" || strings.Index(n.Output(), down) > strings.Index(n.Output(), stale) {
			t.Errorf("%+v, and %+v:\n%s", d, s, n.Output())
		}
	}
	redis.Restart(t)
	for _, n := range nodes {
		servertest.Await(t, "the store to be back", func() bool { return len(n.lines(t, back)) > 0 })
		if b := n.lines(t, back); len(b) != 1 || b[0].Level != "INFO" || b[0].After == "" {
			t.Errorf("%+v", b)
		}
		if d := n.lines(t, down); len(d) != 1 {
			t.Errorf("told %d times that it was down", len(d))
		}
	}
}

// So it is of stores other than one Redis, and of one server among several.
func TestFamilyOutagesOfEachStore(t *testing.T) {
	processes(t)
	const down, back = "shared store unavailable; circuit breaker opened", "shared store recovered"
	t.Run("memcached", func(t *testing.T) {
		addr, p := servertest.Memcached(t, "")
		outageOf(t, "memcached://"+addr, down, back, func() {
			if err := p.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := p.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("another region", func(t *testing.T) {
		own, other := servertest.Redis(t), servertest.Redis(t)
		list := fmt.Sprintf("a=redis://%s;b=redis://%s?timeout=%s", own.Addr+patient, other.Addr, budget)
		outageOf(t, "redis://"+own.Addr+patient, "region unavailable; admission is bounded by max_overshoot", "region recovered", func() {
			if err := other.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := other.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}, "--region", "a", "--regions", list)
	})
	for _, c := range []struct{ scheme, more, down, back string }{
		{"redis+ring", "", "ring server down; its keys fail over to the other servers", "ring server recovered"},
		{"redis+ring", "&ring_on_loss=policy", "ring server down; limits of its keys follow on_store_error", "ring server recovered"},
		{"redis+cluster", "", "part of the cluster down; limits of its keys follow on_store_error", "cluster recovered"},
	} {
		t.Run(c.scheme+c.more, func(t *testing.T) {
			var servers []*servertest.RedisServer
			if c.scheme == "redis+cluster" {
				servers = servertest.RedisCluster(t, 3)[:3]
				for _, s := range servers {
					s.Do(t, "CONFIG", "SET", "cluster-node-timeout", "600000") // no replica takes over
				}
			} else {
				servers = []*servertest.RedisServer{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)}
			}
			url := fmt.Sprintf("%s://%s,%s,%s?timeout=%s%s", c.scheme, servers[0].Addr, servers[1].Addr, servers[2].Addr, budget, c.more)
			outageOf(t, url, c.down, c.back, func() {
				if err := servers[1].Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}, func() {
				if err := servers[1].Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// outageOf ends and begins a store, or a part of one, again under load: a node tells of
// both once, and first of the outage.
func outageOf(t *testing.T, url, down, back string, stop, goOn func(), flags ...string) {
	t.Helper()
	strict := cell{algorithm: "fixed_window", mode: "strict"}
	if len(flags) > 0 { // of regions
		strict = cell{algorithm: "fixed_window", mode: "eventual", over: overshoot}
	}
	n := serve(t, url, rules(t, strict.descriptor(1_000_000, "year")), flags...)
	var a asked
	round := 0
	ask := func() {
		t.Helper()
		for range 20 { // of many keys: each server has some
			round++
			a.askFor(t, n, strict.key(), fmt.Sprint("client", round%60), 1)
		}
	}
	ask()
	before := len(n.Output())
	stop()
	servertest.Await(t, "the outage to be told", func() bool { ask(); return len(n.lines(t, down)) > 0 })
	for range 5 {
		ask()
	}
	if d := n.lines(t, down); len(d) != 1 || d[0].Level != "ERROR" || len(n.lines(t, back)) != 0 {
		t.Errorf("while it is down: %+v\n%s", d, n.Output())
	}
	// What follows from the loss of a part of a cluster can be noticed before it is.
	for line := range strings.Lines(n.Output()[before:]) {
		if warns := strings.Contains(line, `"level":"WARN"`) && !strings.HasPrefix(url, "redis+cluster"); warns || strings.Contains(line, `"level":"ERROR"`) {
			if warns || !strings.Contains(line, "decisions follow") && !strings.Contains(line, down) {
				t.Errorf("told before what is down: %s", line)
			}
			break
		}
	}
	goOn()
	servertest.Await(t, "the end to be told", func() bool { ask(); return len(n.lines(t, back)) > 0 })
	for range 5 {
		ask()
	}
	if d, b := n.lines(t, down), n.lines(t, back); len(d) != 1 || len(b) != 1 || b[0].Level != "INFO" || b[0].After == "" {
		t.Errorf("after it: %+v, %+v\n%s", d, b, n.Output())
	}
}
