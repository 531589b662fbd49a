package fleet

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// beside is a node whose decisions are told, and one like it whose decisions are not.
type beside struct {
	told, quiet *node
	file        string // their rules
}

func besides(t *testing.T, told ...string) beside {
	t.Helper()
	file := rules(t, "{key: client, limit: 1/day, algorithm: fixed_window}")
	return beside{serve(t, "memory:", file, told...), serve(t, "memory:", file, "--events", "off"), file}
}

// came is what came of the requests to both.
type came struct{ told, quiet asked }

// come lets clients from to to-1 ask both nodes twice each, in turn. Of each client
// one request passes.
func (b beside) come(t *testing.T, c *came, from, to int) {
	t.Helper()
	var next atomic.Int64
	next.Store(int64(from))
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for i := int(next.Add(1)) - 1; i < to && !t.Failed(); i = int(next.Add(1)) - 1 {
				c.told.askFor(t, b.told, "client", fmt.Sprint(i), 2)
				c.quiet.askFor(t, b.quiet, "client", fmt.Sprint(i), 2)
			}
		})
	}
	clients.Wait()
}

// unharmed fails unless the decisions of so many clients are those that were to be
// made, and says how long they took on either node.
func (c *came) unharmed(t *testing.T, when string, clients int) {
	t.Helper()
	for name, a := range map[string]*asked{"told": &c.told, "quiet": &c.quiet} {
		if n := int64(clients); a.allowed.Load() != n || a.refused.Load() != n || a.degraded.Load() != 0 {
			t.Errorf("%s: %d passed, %d were refused, %d by policy, want %d, %d and none", name, a.allowed.Load(), a.refused.Load(), a.degraded.Load(), n, n)
		}
	}
	t.Logf("%s, %d requests took %s at the median and %s at p99; on a node beside it that tells nobody %s and %s",
		when, c.told.all()/2, c.told.quantile(0.5), c.told.quantile(0.99), c.quiet.quantile(0.5), c.quiet.quantile(0.99))
}
