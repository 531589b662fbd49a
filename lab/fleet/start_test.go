package fleet

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A node that may start without its store decides by the policy of each limit until
// the store is there, which is looked at then as it is at a start.
func TestStoreStartsLater(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	redis.Kill(t)
	var descriptors []string
	for _, p := range []string{"deny", "local", "allow", "last_known"} {
		d := cell{algorithm: "fixed_window", mode: "strict"}.descriptor(count, "year")
		d = strings.Replace(d, "{key: strict-fixed_window", "{key: "+p, 1)
		descriptors = append(descriptors, strings.Replace(d, "on_store_error: deny", "on_store_error: "+p, 1))
	}
	began := time.Now()
	n := serve(t, "redis://"+redis.Addr+patient, rules(t, descriptors...), "--store-nodes", "4", "--store-start", "serve")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("a node without a store took %s to start", took)
	}
	servertest.Await(t, "the node to say that it has no store", func() bool { return strings.Contains(n.Output(), "started without the store") })
	ready(t, n)
	for key, want := range map[string]int64{"deny": 0, "local": count / 4, "allow": 2 * count, "last_known": count} {
		a := offer(t, []*node{n}, key, 2*count, 10)
		if got := a.allowed.Load(); got != want || a.degraded.Load() != a.all() {
			t.Errorf("%s without a store: %d of %d passed, %d by policy, want %d", key, got, a.all(), a.degraded.Load(), want)
		}
	}
	for name, want := range map[string]float64{"weir_shared_store_reached": 0, "weir_shared_store_up": 0} {
		if got := n.metric(t, name); got != want {
			t.Errorf("%s is %g without a store, want %g", name, got, want)
		}
	}

	redis.Restart(t)
	back := time.Now()
	servertest.Await(t, "the node to find its store", func() bool {
		return n.metric(t, "weir_shared_store_reached") == 1 && n.metric(t, "weir_shared_store_up") == 1
	})
	t.Logf("the store was found %s after it started", time.Since(back).Round(time.Millisecond))
	for _, want := range []string{"store reached", "server evicts keys when its memory is full"} {
		servertest.Await(t, "the log to say "+want, func() bool { return strings.Contains(n.Output(), want) })
	}
	for _, key := range []string{"deny", "local", "allow", "last_known"} {
		var a asked
		for range 3 * count / 10 {
			a.askFor(t, n, key, "another", 10)
		}
		if got := a.allowed.Load(); got != count || a.degraded.Load() != 0 {
			t.Errorf("%s with a store: %d of %d passed, %d by policy, want %d", key, got, a.all(), a.degraded.Load(), int64(count))
		}
	}
	ready(t, n)
}

// ready asks a node whether it takes requests: it does, store or not.
func ready(t *testing.T, n *node) {
	t.Helper()
	res, err := client.Get(n.admin + "/healthz/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Error(fmt.Errorf("not ready: %d %s, %w", res.StatusCode, text, err))
	}
}
