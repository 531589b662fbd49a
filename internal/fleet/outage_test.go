package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/servertest"
)

// logged is a line of a node's log.
type logged struct {
	Level, Msg, Version, After string
	Nodes                      int
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
	const down, stale, back = "the shared store does not answer", "laid over the rules cannot be read", "the shared store answers again"
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
