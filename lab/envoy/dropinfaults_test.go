package envoy

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// services are the two that are to be one for Envoy.
func services(t testing.TB) map[string][]string {
	return map[string][]string{"weir": {command, "ratelimit"}, "reference": {builtRateLimit(t)}}
}

// alike runs one story with each service and compares what it tells.
func alike(t *testing.T, story func(t *testing.T, argv []string) string) {
	t.Helper()
	var said sync.Map
	t.Run("before", func(t *testing.T) {
		for name, argv := range services(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				said.Store(name, story(t, argv))
			})
		}
	})
	weir, _ := said.Load("weir")
	if reference, _ := said.Load("reference"); weir != reference {
		t.Errorf("behind weir\n%s\nbehind the reference\n%s", weir, reference)
	}
}

const faultRules = `domain: d
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: probe, rate_limit: {unit: year, requests_per_unit: 1000000}}
`

// Whatever fails, clients see the same before both services: the store or the service stands
// still, is killed, and comes back, where Envoy's filter is open, closed, and answers its
// own status. What comes after is counted from where it was.
func TestDropInFaults(t *testing.T) {
	processes(t)
	root := folderOf(writeFile(t, "config/d.yaml", faultRules))
	for name, more := range map[string]object{
		"open":           nil,
		"closed":         {"failure_mode_deny": true},
		"another status": {"failure_mode_deny": true, "status_on_error": object{"code": "ServiceUnavailable"}, "rate_limited_as_resource_exhausted": true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alike(t, func(t *testing.T, argv []string) string { return tellFaults(t, argv, root, more) })
		})
	}
}

// tellFaults returns what clients see of one service while all fails that can.
func tellFaults(t *testing.T, argv []string, root string, more object) string {
	// Of several connections the reference loses each anew after its store is back.
	app, limiter := serveApplication(t), startRateLimit(t, argv, root, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "REDIS_POOL_SIZE=1")
	filter := rateLimitFilter("d", with(object{"timeout": "2s"}, more))
	limits := list{actions(byHeader("x-user", "user")), actions(byHeader("x-probe", "probe"))}
	e := startImpatient(t, setup{filters: list{filter}, routes: list{toApplication(object{"rate_limits": limits}, nil)}}.bootstrap(t),
		map[int]string{portApplication: app.addr, portWeirGRPC: limiter.addr})
	var text strings.Builder
	ask := func(user, kind string) string {
		res := e.do(t, h2, "POST", "/", "", "X-User", user, "Content-Type", kind)
		for _, field := range untold {
			res.Header.Del(field)
		}
		return fmt.Sprintf("%d %v %q", res.code, res.Header, res.body)
	}
	const call = "application/grpc"
	tell := func(what, user string) {
		for _, kind := range []string{"text/plain", "text/plain", call} {
			fmt.Fprintf(&text, "%s: %s\n", what, ask(user, kind))
		}
	}
	// tellLate asks at once what is answered when Envoy's patience has ended.
	tellLate := func(what, user string) {
		var request, rpc string
		var both sync.WaitGroup
		both.Go(func() { request = ask(user, "text/plain") })
		both.Go(func() { rpc = ask(user, call) })
		both.Wait()
		fmt.Fprintf(&text, "%s: %s\n%s\n", what, request, rpc)
	}
	// comeBack waits until requests are counted again.
	comeBack := func(what string) {
		servertest.Await(t, what, func() bool { return e.get(t, "/", "X-Probe", "p").Get("Ratelimit-Limit") != "" })
	}
	comeBack("the first answer")
	tell("at first", "a")

	if err := limiter.redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tellLate("the store stands still", "b")
	if err := limiter.redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	comeBack("the store goes on")
	tell("the store goes on", "c")

	limiter.redis.Kill(t)
	tell("the store is gone", "d")
	limiter.redis.Restart(t)
	comeBack("the store is back")
	tell("the store is back", "e")

	limiter.signal(t, syscall.SIGSTOP)
	tellLate("the service stands still", "f")
	limiter.signal(t, syscall.SIGCONT)
	comeBack("the service goes on")
	tell("the service goes on", "e")

	limiter.signal(t, syscall.SIGKILL)
	servertest.Await(t, "the end", func() bool { _, err := limiter.Wait(gone); return err == nil })
	tell("the service is gone", "g")
	limiter.start()
	comeBack("the service is back")
	tell("the service is back", "e")
	return reset.ReplaceAllString(text.String(), "SECONDS")
}

// networkSetup is an Envoy that limits connections, not requests.
func networkSetup(t testing.TB, more object) string {
	t.Helper()
	filter := rateLimitFilter("d", with(object{"stat_prefix": "tcp", "descriptors": list{object{"entries": list{object{"key": "user", "value": "tcp"}}}}}, more))
	config := filter["typed_config"].(object)
	config["@type"] = "type.googleapis.com/envoy.extensions.filters.network.ratelimit.v3.RateLimit"
	return setup{network: list{
		object{"name": "envoy.filters.network.ratelimit", "typed_config": config},
		object{"name": "envoy.filters.network.tcp_proxy", "typed_config": typed("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", object{"stat_prefix": "tcp", "cluster": "application"})},
	}}.bootstrap(t)
}

// Connections are limited alike by Envoy's network filter, and fail alike.
func TestDropInOfConnections(t *testing.T) {
	processes(t)
	root := folderOf(writeFile(t, "config/d.yaml", faultRules))
	for name, more := range map[string]object{"open": nil, "closed": {"failure_mode_deny": true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alike(t, func(t *testing.T, argv []string) string {
				app, limiter := serveApplication(t), startRateLimit(t, argv, root)
				e := startEnvoy(t, networkSetup(t, more), map[int]string{portApplication: app.addr, portWeirGRPC: limiter.addr})
				var text strings.Builder
				for range 4 {
					fmt.Fprintln(&text, e.connect(t))
				}
				if text.String() != "200\n200\nclosed\nclosed\n" {
					t.Errorf("%s: %q", argv[0], text.String())
				}
				limiter.signal(t, syscall.SIGKILL)
				servertest.Await(t, "the end", func() bool { _, err := limiter.Wait(gone); return err == nil })
				fmt.Fprintln(&text, "gone:", e.connect(t))
				for _, name := range []string{"total", "ok", "over_limit", "error", "failure_mode_allowed", "cx_closed"} {
					fmt.Fprintln(&text, name, e.stat(t, "ratelimit.tcp."+name))
				}
				return text.String()
			})
		})
	}
}

// connect makes a connection, and returns the status of a request on it, or that it was
// closed.
func (p *proxy) connect(t testing.TB) string {
	t.Helper()
	conn := p.dial(t)
	defer conn.Close()
	// An error shows when it is read from too.
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "closed"
	}
	return strings.Fields(line)[1]
}
