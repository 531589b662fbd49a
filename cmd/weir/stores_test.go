package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// sharedRules count in every way that nodes can, by the key of the entry.
const sharedRules = `
domain: api
descriptors:
  - {key: strict, limit: 40/hour, algorithm: sliding_log, consistency: strict}
  - {key: leased, limit: 400/year, algorithm: fixed_window}
  - {key: eventual, limit: 400/year, algorithm: fixed_window, consistency: {mode: eventual, max_overshoot: 5%}}
  - {key: local, limit: 20/hour, consistency: local}
  - {key: places, limit: 10, ttl: 1m, algorithm: concurrency}
`

// ask returns how many of n checks of a key passed, asked of nodes in turn by
// several clients at once.
func ask(t *testing.T, nodes []*testNode, n int, key string) int {
	t.Helper()
	var allowed, next atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":"k"}]}]`, key)
				if key == "places" {
					body += fmt.Sprintf(`,"lease":"%d"`, i)
				}
				body += "}"
				res, err := client.Post(nodes[i%len(nodes)].http+path(key), "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				status, text := read(t, res)
				if status != 200 {
					t.Errorf("%s: %d %s", key, status, text)
					return
				}
				if strings.Contains(text, `"allowed":true`) {
					allowed.Add(1)
				}
			}
		})
	}
	clients.Wait()
	return int(allowed.Load())
}

// hasMetric reports whether a line is among the metrics of a node. It is compared
// whole: the help of a metric begins with its name too.
func hasMetric(t *testing.T, n *testNode, line string) bool {
	t.Helper()
	_, text := get(t, n.admin+"/metrics")
	return strings.Contains(text, "\n"+line+"\n")
}

func path(key string) string {
	if key == "places" {
		return "/v1/acquire"
	}
	return "/v1/check"
}

// Nodes that share a store hold one limit together, as their rules promise.
func TestNodesShareRedis(t *testing.T) {
	redis := servertest.Redis(t)
	file := servertest.File(t, "rules.yaml", sharedRules)
	var nodes []*testNode
	for range 3 {
		nodes = append(nodes, serve(t, "--rules", file, "--store", "redis://"+redis.Addr+"?timeout=5s"))
	}
	for _, tt := range []struct {
		key         string
		least, most int
	}{
		{"strict", 40, 40},
		{"leased", 392, 400},
		{"eventual", 392, 420},
		{"local", 60, 60},
		{"places", 10, 10},
	} {
		n := 3 * tt.most
		if got := ask(t, nodes, n, tt.key); got < tt.least || got > tt.most {
			t.Errorf("%s: %d of %d passed, want %d to %d", tt.key, got, n, tt.least, tt.most)
		}
	}
	// The first node heard of the others when it last renewed its place.
	servertest.Await(t, "the first node to know of the others", func() bool {
		return hasMetric(t, nodes[0], "weir_shared_store_nodes 3")
	})
	for _, n := range nodes {
		for _, want := range []string{"weir_shared_store_up 1", "weir_degraded_decisions_total 0"} {
			if !hasMetric(t, n, want) {
				t.Errorf("no %q in the metrics", want)
			}
		}
	}
}

// While the store stands still decisions are made by the rules' policy, in time;
// once it is back they are exact again.
func TestRedisStandsStill(t *testing.T) {
	redis := servertest.Redis(t)
	n := serve(t, "--store", "redis://"+redis.Addr+"?timeout=50ms", "--rules", servertest.File(t, "rules.yaml", `
domain: api
descriptors:
  - {key: open, limit: 5/hour, on_store_error: allow}
  - {key: closed, limit: 5/hour, on_store_error: deny}
  - {key: share, limit: 5/hour}
`))
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"open": 12, "closed": 0, "share": 5} {
		begin := time.Now()
		if got := ask(t, []*testNode{n}, 12, key); got != want {
			t.Errorf("%s: %d of 12 passed while the store stood still, want %d", key, got, want)
		}
		// Sixteen clients, one call of 50 ms each until the breaker is open.
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: twelve decisions took %s", key, took)
		}
	}
	// Decisions that are made at once share a call, so these come one by one.
	servertest.Await(t, "the metrics to tell that the store is away", func() bool {
		ask(t, []*testNode{n}, 1, "closed")
		return hasMetric(t, n, "weir_shared_store_up 0")
	})
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the store to be back", func() bool {
		return hasMetric(t, n, "weir_shared_store_up 1")
	})
	if got := ask(t, []*testNode{n}, 12, "closed"); got > 5 {
		t.Errorf("%d of 12 passed under a limit of 5 after the store was back", got)
	}
}

func TestNodesShareMemcached(t *testing.T) {
	addr, _ := servertest.Memcached(t, "")
	file := servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: strict, limit: 40/year, algorithm: fixed_window, consistency: strict}\n")
	nodes := []*testNode{serve(t, "--rules", file, "--store", "memcached://"+addr+"?timeout=5s"), serve(t, "--rules", file, "--store", "memcached://"+addr+"?timeout=5s")}
	if got := ask(t, nodes, 120, "strict"); got != 40 {
		t.Errorf("%d passed, want 40", got)
	}
	status, text := post(t, nodes[0].http+"/v1/reserve", `{"domain":"api","descriptors":[{"entries":[{"key":"strict","value":"r"}]}],"cost":1}`)
	if status != 501 && status != 404 || !strings.Contains(text, "reserv") {
		t.Errorf("a reservation: %d %s", status, text)
	}
}

// What a store cannot do is said when the server starts, with the setting and
// the cure.
func TestStoreIsRefused(t *testing.T) {
	redis := servertest.RedisPassword(t, "secret")
	memcached, _ := servertest.Memcached(t, "")
	rules := func(text string) []string {
		return []string{"--rules", servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - "+text+"\n")}
	}
	any := []string{"--limit", "5/minute by client_id"}
	for _, tt := range []struct {
		store string
		args  []string
		want  []string
	}{
		{"redis://" + redis.Addr, any, []string{"--store", "password"}},
		{"redis://:wrong@" + redis.Addr, any, []string{"--store", "password"}},
		{"redis+cluster://:secret@" + redis.Addr, any, []string{"--store", "redis://"}},
		{"redis://127.0.0.1:1", any, []string{"--store", "nobody listens"}},
		{"redis:/127.0.0.1", any, []string{"--store"}},
		{"radis://127.0.0.1", any, []string{`"radis"`, `did you mean "redis"`}},
		{"redis://:secret@" + redis.Addr, rules("{key: a, limit: 5/minute, algorithm: approximate}"), []string{"approximate", "local"}},
		{"redis://:secret@" + redis.Addr, rules("{key: a, limit: 5/minute, algorithm: sliding_log, consistency: leased}"), []string{"sliding_window"}},
		{"memcached://" + memcached, rules("{key: a, limit: 5/minute, algorithm: sliding_log}"), []string{"fixed_window"}},
		{"memcached://" + memcached, any, []string{"fixed_window"}},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, binary, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "", "--store", tt.store}, tt.args...)...).CombinedOutput()
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s %v: started", tt.store, tt.args)
		}
		stop()
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s %v: no %q in %s", tt.store, tt.args, want, out)
			}
		}
		if strings.Contains(string(out), "secret@") || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: says too much: %s", tt.store, out)
		}
	}
}
