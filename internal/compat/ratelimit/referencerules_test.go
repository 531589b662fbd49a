package ratelimit_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// loadErrors returns what the log says of rules that were refused, each once.
func (n *node) loadErrors() []string {
	var all []string
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)msg="(Error loading new configuration: .*)"$`).FindAllStringSubmatch(n.proc.Output(), -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			all = append(all, m[1])
		}
	}
	return all
}

// saw waits for an error of loading rules.
func (n *node) saw(text string) {
	n.t.Helper()
	servertest.Await(n.t, "the error "+text, func() bool { return strings.Contains(n.proc.Output(), text) })
}

func TestReferenceSwap(t *testing.T) {
	for _, dots := range []string{"true", "false"} {
		here, there := both(t, []string{"RUNTIME_WATCH_ROOT=true", "RUNTIME_SUBDIRECTORY=rl", "RUNTIME_IGNOREDOTFILES=" + dots}, func(t *testing.T, bin, _ string, env []string) []string {
			root := t.TempDir()
			write(t, root, map[string]string{
				"v1/rl/config/a.yaml": domain("a", 1), "v1/rl/config/sub/b.yml": domain("b", 1), "v1/rl/other/c.yaml": domain("c", 1),
				"v1/rl/config.d.yaml": domain("d", 1), "v1/rl/config/.e.yaml": domain("e", 1), "v1/rl/config/.f/f.yaml": domain("f", 1), "v1/rl/configx/g.yaml": domain("g", 1),
				"v2/rl/config/a.yaml": domain("a", 2), "v2/rl/README": "none of yours",
				"v3/rl/config/a.yaml": "domain: ''",
				"v4/rl/nothing/x":     "",
				"v5/rl/config/a.yaml": domain("a", 5),
			})
			current := filepath.Join(root, "current")
			link(t, "v1", current)
			n := start(t, bin, append(env, "RUNTIME_ROOT="+current)...)
			r := &transcript{t: t, n: n, conn: n.dial()}
			look := func() {
				r.get("debug", n.debug, "/rlconfig")
				v, _ := n.value("runtime_num_values")
				r.say("values %v", v)
			}
			n.series("runtime_load_attempts", 1)
			look()
			link(t, "v2", current)
			n.config(line("a", 2))
			n.series("runtime_load_attempts", 2)
			look()
			link(t, "v3", current)
			n.saw("config.a.yaml: config file cannot have empty domain")
			n.series("runtime_load_attempts", 3)
			look()
			link(t, "v4", current)
			servertest.Await(t, "no rules", func() bool { return n.rules() == "" })
			n.series("runtime_load_attempts", 4)
			look()
			link(t, "v5", current)
			n.config(line("a", 5))
			n.series("runtime_load_attempts", 5)
			look()
			return append(r.lines, n.loadErrors()...)
		})
		unexplained(t, here, there, nil)
	}
}

func TestReferenceErrors(t *testing.T) {
	bad := []string{
		"domain: ''", "domain: shop", "domain: x\nfoo: 1", "domain: [", "domain: x\ndescriptors: [{key: ''}]",
		"domain: x\ndescriptors: [{key: a},{key: a}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: eon}}]",
		"domain: x\ndescriptors: [{key: a, value: 1.5}]", "domain: x\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]",
	}
	here, there := both(t, []string{"LOG_LEVEL=error"}, func(t *testing.T, bin, root string, env []string) []string {
		n := start(t, bin, env...)
		for i, text := range bad {
			count := len(n.loadErrors())
			// In one step, so that nobody reads half a file.
			write(t, root, map[string]string{"new": text})
			if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "config", "zz.yaml")); err != nil {
				t.Fatal(err)
			}
			servertest.Await(t, fmt.Sprint("the error of file ", i), func() bool { return len(n.loadErrors()) > count })
		}
		return n.loadErrors()
	})
	unexplained(t, here, there, map[string]string{`\[\]config\.YamlDescriptor`: "the name of a type"})
}

func TestReferenceMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	write(t, filepath.Dir(path), map[string]string{"map.yaml": `
defaults:
  timer_type: histogram
  buckets: [1, 2]
mappings:
- match: "ratelimit.service.rate_limit.*.*.*"
  name: "hits_$3"
  unknown: x
  labels: {domain: "$1", key: "$2"}
- match: "ratelimit.go.*"
  action: drop
  name: dropped
- match: "ratelimit_server.*.response_time"
  name: took
  timer_type: summary
  summary_options: {quantiles: [{quantile: 0.5, error: 0.1}]}
- match: "runtime.*"
  match_metric_type: gauge
  name: "gauge_$1"
`})
	for _, file := range []string{path, "/no/such/file"} {
		here, there := both(t, []string{"PROMETHEUS_MAPPER_YAML=" + file}, func(t *testing.T, bin, _ string, env []string) []string {
			n := start(t, bin, env...)
			r := &transcript{t: t, n: n, conn: n.dial()}
			r.ask("", request("shop", "user=ann", "user=vip", "ip=1.2.3.4"))
			servertest.Await(t, "the statistics", func() bool {
				res, err := http.Get("http://" + n.prom + "/metrics")
				return err == nil && strings.Contains(servertest.Body(t, res), "total_hits")
			})
			return n.samples()
		})
		unexplained(t, here, there, map[string]string{`ratelimit_go_(numGC|pauseTotalNs)`: "this program collects garbage less often"})
	}
}

// A fleet that is changed node by node counts as one, and nothing starts anew.
func TestReferenceSharesStores(t *testing.T) {
	other := reference(t)
	redis := servertest.Redis(t)
	memcached := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	servertest.Memcached(t, memcached)
	for _, env := range [][]string{
		{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr, "CACHE_KEY_PREFIX=fleet:"},
		{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"},
		{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + memcached},
	} {
		root := rulesIn(t, map[string]string{"config/shop.yaml": strings.Replace(shop, "hour", "week", 1)})
		here, there := start(t, program, append(inPlace(root), env...)...), start(t, other, append(inPlace(root), env...)...)
		for i, n := range []*node{here, there, here, there, here} {
			res, err := ask(t, n.dial(), "shop", "user=ann")
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("code:OK remaining:%d", 2-i)
			if i > 2 {
				want = "code:OVER_LIMIT remaining:0"
			}
			if got := fmt.Sprintf("code:%v remaining:%d", res.Statuses[0].Code, res.Statuses[0].LimitRemaining); got != want {
				t.Errorf("%q, call %d: %s, want %s", env, i, got, want)
			}
			if strings.Contains(env[0], "memcache") {
				time.Sleep(50 * time.Millisecond) // it counts after it has answered
			}
		}
	}
}

func TestReferenceTLSStatistics(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, dir, "x")
	write(t, dir, map[string]string{".hidden": "", "more/ca.pem": ""})
	env := []string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert, "GRPC_SERVER_TLS_KEY=" + key, "EXTRA_TAGS=az:a,ok:b"}
	here, there := both(t, env, func(t *testing.T, bin, _ string, env []string) []string {
		n := start(t, bin, env...)
		n.series("certs_load_attempts___az_a___ok_b", 1)
		v, _ := n.value("certs_num_values___az_a___ok_b")
		reserved, _ := n.value("reserved_tag")
		return append(n.samples(), fmt.Sprint("files ", v), fmt.Sprint("reserved ", reserved))
	})
	unexplained(t, here, there, map[string]string{`ratelimit_go_(numGC|pauseTotalNs)`: "this program collects garbage less often"})
}
