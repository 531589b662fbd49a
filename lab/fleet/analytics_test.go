package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// keep starts `weir analytics` on a queue and a database.
func keep(t *testing.T, events, database string) *node {
	t.Helper()
	n := &node{Process: servertest.Serve(t, exec.Command(command, "analytics", "--events", events, "--analytics", database,
		"--listen", "127.0.0.1:0", "--log-format", "json"), "analytics")}
	n.admin = n.URL("analytics")
	t.Cleanup(func() { _ = n.Signal(syscall.SIGKILL) }) // it may have ended
	return n
}

// answer asks analytics a question.
func (n *node) answer(t *testing.T, path string, to any) {
	t.Helper()
	res, err := client.Get(n.admin + "/v1/analytics/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(to); err != nil {
		t.Fatal(err)
	}
}

// Analytics that are killed while they count, again and again, and started anew, have
// in the end counted each decision once: by roll-ups, and by the records of each
// client.
func TestAnalyticsKilled(t *testing.T) {
	processes(t)
	const clients, limit, kills = 400, 3, 3
	b := rabbitBroker(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	n := serve(t, "memory:", rules(t, fmt.Sprintf("{key: client, limit: %d/day, algorithm: fixed_window}", limit)),
		"--events", b.url("weir"), "--events-sample", "1", "--events-unhashed")
	var sent [clients]atomic.Int64
	var all asked
	stop := make(chan struct{})
	var load sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		load.Go(func() {
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
				}
				i := next.Add(1) % clients
				all.askFor(t, n, "client", fmt.Sprint(i), 5)
				sent[i].Add(5)
			}
		})
	}
	for range kills {
		a := keep(t, b.url("weir"), database)
		servertest.Await(t, "a batch to be under way", func() bool { return a.metric(t, "weir_analytics_pending_events") > 0 })
		if err := a.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := keep(t, b.url("weir"), database)
	close(stop)
	load.Wait()
	n.end(t)
	countedOnce(t, last, sent[:], &all, limit)
	t.Logf("%d decisions, %g events came twice", all.all(), last.events(t, "duplicate"))
}

// end ends a node, which tells what it has not told yet.
func (n *node) end(t *testing.T) {
	t.Helper()
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := n.Wait(t.Context()); err != nil || code != 0 {
		t.Fatalf("ended with %d, %v", code, err)
	}
}

// events returns how many events analytics have met that were counted, or were
// duplicates.
func (n *node) events(t *testing.T, result string) float64 {
	t.Helper()
	return n.metric(t, fmt.Sprintf("weir_analytics_events_total{result=%q}", result))
}

// countedOnce waits until analytics have counted every decision, and fails if any is
// counted twice: all is what came of them, sent how many there were of each client,
// each of which may pass limit times.
func countedOnce(t *testing.T, n *node, sent []atomic.Int64, all *asked, limit int64) {
	t.Helper()
	from := "from=" + fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	var overview struct {
		Totals struct {
			Decisions int64
			Counts    map[string]int64
		}
	}
	var list struct {
		Clients []struct {
			Key    string
			Counts map[string]int64
		}
	}
	// What a process that was killed had taken comes again after a while, behind what
	// came since.
	servertest.Await(t, "all to be counted", func() bool {
		n.answer(t, "overview?"+from, &overview)
		n.answer(t, fmt.Sprintf("clients?top=1000&%s", from), &list)
		refused := int64(0)
		for _, c := range list.Clients {
			refused += c.Counts["refused"]
		}
		return overview.Totals.Decisions >= all.all() && refused >= all.refused.Load()
	})
	if got := overview.Totals; got.Decisions != all.all() || got.Counts["refused"] != all.refused.Load() || got.Counts["allowed"] != all.allowed.Load() {
		t.Errorf("counted %+v, want %d decisions, %d refused, %d allowed", got, all.all(), all.refused.Load(), all.allowed.Load())
	}
	if len(list.Clients) != len(sent) {
		t.Errorf("%d clients, want %d", len(list.Clients), len(sent))
	}
	for _, c := range list.Clients {
		i := 0
		if _, err := fmt.Sscan(c.Key[strings.LastIndexFunc(c.Key, func(r rune) bool { return r < '0' || r > '9' })+1:], &i); err != nil || i >= len(sent) {
			t.Fatalf("key %q: %v", c.Key, err)
		}
		if got, want := c.Counts["refused"], sent[i].Load()-limit; got != want {
			t.Errorf("client %d was refused %d times, by analytics %d", i, want, got)
		}
	}
}
