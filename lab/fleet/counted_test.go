package fleet

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Whatever is wrong with the store, and however a limit is counted: each decision that is
// made without the store says so, and is counted by its reason; so is what operators'
// changes are asked for in vain. The log names what is down, and what decides meanwhile.
func TestFamilyDecisionsWithoutTheStoreAreCounted(t *testing.T) {
	processes(t)
	all := cells()
	var descriptors []string
	for _, c := range all {
		descriptors = append(descriptors, c.descriptor(count, "year"))
	}
	for name, way := range map[string]struct {
		kinds []string // of which there must be some
		fail  func(*testing.T, *servertest.RedisServer)
	}{
		"stands still": {[]string{"timeout", "breaker_open"}, func(t *testing.T, r *servertest.RedisServer) {
			if err := r.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Signal(syscall.SIGCONT) })
		}},
		"is gone":         {[]string{"unreachable", "breaker_open"}, func(t *testing.T, r *servertest.RedisServer) { r.Kill(t) }},
		"is full":         {[]string{"server_error", "breaker_open"}, func(t *testing.T, r *servertest.RedisServer) { r.Do(t, "CONFIG", "SET", "maxmemory", "1") }},
		"serves nobody":   {[]string{"server_error", "breaker_open"}, func(t *testing.T, r *servertest.RedisServer) { r.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1") }},
		"was never there": {[]string{"breaker_open"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
			var redis *servertest.RedisServer
			if way.fail != nil {
				redis = servertest.Redis(t)
				addr = redis.Addr
			}
			n := serve(t, "redis://"+addr+"?timeout=200ms", rules(t, descriptors...), "--store-start", "serve")
			told := func() (sum float64, of map[string]float64) {
				of = map[string]float64{}
				for _, kind := range []string{"timeout", "busy", "unreachable", "server_error", "canceled", "breaker_open", "other"} {
					of[kind] = n.metric(t, fmt.Sprintf("weir_shared_store_errors_total{kind=%q}", kind))
					sum += of[kind]
				}
				return sum, of
			}
			if way.fail != nil {
				servertest.Await(t, "decisions of the store", func() bool {
					a := new(asked)
					for _, c := range all {
						a.askFor(t, n, c.key(), "first", 1)
					}
					return a.degraded.Load() == 0
				})
				way.fail(t, redis)
			}
			before, _ := told()
			degraded := n.metric(t, "weir_degraded_decisions_total")
			for _, c := range all {
				a := new(asked)
				for i := range 8 { // new keys, of which the node holds nothing
					a.askFor(t, n, c.key(), fmt.Sprint(i), 1)
				}
				now := n.metric(t, "weir_degraded_decisions_total")
				sum, of := told()
				if got := now - degraded; got != float64(a.degraded.Load()) || sum-before < got {
					t.Errorf("%s: %d answers say that they are degraded, %g are counted, and %g by kind: %v", c.key(), a.degraded.Load(), got, sum-before, of)
				}
				// What has written something may write more, however full the server is.
				if a.degraded.Load() == 0 && name != "is full" {
					t.Errorf("%s: all of the store", c.key())
				}
				before, degraded = sum, now
			}
			sum, of := told()
			for _, kind := range way.kinds {
				if of[kind] == 0 {
					t.Errorf("nothing is counted as %s: %v", kind, of)
				}
			}
			servertest.Await(t, "what reads operators' changes to be counted", func() bool { now, _ := told(); return now > sum || name == "is full" || name == "serves nobody" }) // which reads all the same
			if !strings.Contains(n.Output(), "on_store_error") {
				t.Errorf("the log does not name on_store_error:\n%s", n.Output())
			}
		})
	}
}
