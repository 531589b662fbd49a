package envoy

import (
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Nodes behind Envoy are restarted one after the other under load, and no request fails or
// passes uncounted: a node that is to end says so to Envoy's health checks, and serves on
// until Envoy has turned away.
func TestRollingRestart(t *testing.T) {
	processes(t)
	rules := writeFile(t, "config/d.yaml", "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 4000000}}\n")
	limits := rateLimitFilter("d", object{"failure_mode_deny": true, "rate_limits": list{actions(byHeader("x-user", "user"))}})
	for name, c := range map[string]struct {
		start   func(t testing.TB, redis, addr string) *servertest.Process
		service string // which Envoy asks the health of
		field   string // of what was counted
		filter  object
	}{
		"ext_authz": {func(t testing.TB, redis, addr string) *servertest.Process {
			return servertest.Serve(t, exec.Command(command, "serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--grpc", addr, "--ext-authz",
				"--drain-delay", "2s", "--store", "redis://"+redis, "--limit", "4000000/day by ip"), "http", "grpc")
		}, "", "Ratelimit", extAuthzFilter()},
		"weir serve": {func(t testing.TB, redis, addr string) *servertest.Process {
			return servertest.Serve(t, exec.Command(command, "serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--grpc", addr,
				"--drain-delay", "2s", "--store", "redis://"+redis, "--rules", rules), "http", "grpc")
		}, "", "X-Ratelimit-Remaining", limits},
		"weir ratelimit": {func(t testing.TB, redis, addr string) *servertest.Process {
			return startRateLimitAt(t, []string{command, "ratelimit"}, folderOf(rules), redis, addr, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "WEIR_DRAIN_DELAY=2s")
		}, "ratelimit", "Ratelimit-Remaining", limits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := servertest.Redis(t)
			var addrs [2]string
			for i := range addrs {
				addrs[i] = fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
			}
			restartUnderLoad(t, addrs, c.service, c.field, c.filter, func(addr string) *servertest.Process { return c.start(t, redis.Addr, addr) })
		})
	}
}

// restartUnderLoad starts nodes at addresses, asks them through Envoy, and restarts each.
func restartUnderLoad(t *testing.T, addrs [2]string, service, field string, filter object, start func(addr string) *servertest.Process) {
	to := map[int]string{portApplication: serveApplication(t).addr, portWeirGRPC: addrs[0], portWeirGRPC + 1: addrs[1]}
	nodes := [2]*servertest.Process{start(addrs[0]), start(addrs[1])}
	e := startEnvoy(t, setup{
		filters: list{filter},
		weir: object{
			"health_checks": list{object{"timeout": "5s", "interval": "0.05s", "no_traffic_interval": "0.05s", "unhealthy_threshold": 1, "healthy_threshold": 1, "grpc_health_check": object{"service_name": service}}},
			"load_assignment": object{"cluster_name": "weir", "endpoints": list{object{"lb_endpoints": list{
				object{"endpoint": object{"address": address(portWeirGRPC)}}, object{"endpoint": object{"address": address(portWeirGRPC + 1)}}}}}},
		},
	}.bootstrap(t), to)
	healthy := func(n int) {
		servertest.Await(t, "Envoy's health checks", func() bool { return e.stat(t, "cluster.weir.membership_healthy") == n })
	}
	healthy(2)

	var counted atomic.Int64
	var ended atomic.Bool
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for !ended.Load() {
				if res := e.get(t, "/", "X-User", "ann"); res.code != 200 || res.Get(field) == "" {
					t.Errorf("a request that no node counted: %+v", res)
				} else {
					counted.Add(1)
				}
			}
		})
	}
	more := func() {
		n := counted.Load()
		servertest.Await(t, "requests", func() bool { return t.Failed() || counted.Load() > n+100 })
	}
	for i := range nodes {
		more()
		if err := nodes[i].Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		healthy(1)
		if code, err := nodes[i].Wait(t.Context()); err != nil || code != 0 {
			t.Errorf("the node ends with %d, %v:\n%s", code, err, nodes[i].Output())
		}
		more()
		nodes[i] = start(addrs[i])
		healthy(2)
	}
	more()
	ended.Store(true)
	load.Wait()
}
