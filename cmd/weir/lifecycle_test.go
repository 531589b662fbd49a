package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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

// load asks without pause from several clients until it is
// stopped, and reports what was not answered.
type load struct {
	answered atomic.Int64
	// draining: that nobody listens is no fault.
	draining atomic.Bool
	last     *http.Transport
	stop     chan struct{}
	wg       sync.WaitGroup
}

// question is what a load asks, and what is an answer to it.
type question struct {
	path, body string
	answers    func(status int, body string) bool
}

// asksAPI and asksGateway are the two ways in. POST is not tried again by a
// client whose connection breaks off, so nothing lost stays hidden.
var (
	asksAPI = question{"/shouldAllowRequest", `{"clientId":"load"}`, func(status int, body string) bool {
		return status == 200 && strings.HasPrefix(body, `{"allowed":`)
	}}
	asksGateway = question{"/page", "x=1", func(status int, body string) bool {
		return status == 200 && body == "up\n" || status == 429
	}}
)

// startLoad begins. A client ends when it is told that its connection ends, so
// that a drain can be told from a fault.
func startLoad(t *testing.T, n *testNode, q question) *load { return startLoadOver(t, n, q, false) }

// startLoadOver begins, over HTTP/2 if asked to: then a client ends when it is
// told so and finds that nobody listens any more.
func startLoadOver(t *testing.T, n *testNode, q question, h2 bool) *load {
	l := &load{stop: make(chan struct{})}
	for i := range 16 {
		var tr *http.Transport
		if h2 && i%4 != 0 {
			tr = l.last // four share a connection
		} else {
			// One connection, kept.
			tr = &http.Transport{MaxConnsPerHost: 1}
		}
		if l.last = tr; h2 && i%4 == 0 {
			tr.MaxConnsPerHost = 0 // a drain has one end while the next is refused
			tr.Protocols = new(http.Protocols)
			tr.Protocols.SetUnencryptedHTTP2(true)
		}
		l.wg.Go(func() {
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr}
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				res, err := client.Post(n.http+q.path, "application/json", strings.NewReader(q.body))
				if h2 && errors.Is(err, syscall.ECONNREFUSED) && l.draining.Load() {
					return
				}
				if err != nil {
					t.Errorf("a request was dropped: %v", err)
					return
				}
				data, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || !q.answers(res.StatusCode, string(data)) {
					t.Errorf("answered %d %q, %v", res.StatusCode, data, err)
					return
				}
				l.answered.Add(1)
				if res.Close {
					return
				}
			}
		})
	}
	servertest.Await(t, "load", func() bool { return l.answered.Load() > 200 })
	return l
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// ended waits for the node to end and returns its exit status.
func ended(t *testing.T, n *testNode) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code, err := n.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// SIGTERM in the middle of load: every request that was sent is answered, and
// the exit status is 0.
func TestTermDropsNothing(t *testing.T) {
	upstream, requests := nginx(t)
	for name, q := range map[string]question{"api": asksAPI, "gateway": asksGateway} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s HTTP2 %v", name, h2), func(t *testing.T) {
				args := []string{"--limit", "1000000/hour"}
				if name == "gateway" {
					args = append(args, "--upstream", upstream)
				}
				before := requests()
				n := serve(t, args...)
				l := startLoadOver(t, n, q, h2)
				l.draining.Store(true)
				if err := n.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				l.wg.Wait() // Each client was told that its connection ends.
				if code := ended(t, n); code != 0 {
					t.Errorf("exit status %d\n%s", code, n.Output())
				}
				if name != "gateway" {
					return
				}
				// None was forwarded twice, none was answered without.
				servertest.Await(t, "nginx's log", func() bool { return int64(requests()-before) >= l.answered.Load() })
				if got := int64(requests() - before); got != l.answered.Load() {
					t.Errorf("%d were answered, the upstream had %d", l.answered.Load(), got)
				}
			})
		}
	}
}

// TestSoakLifecycle drains and reloads under load again and again: what is lost
// once in a hundred times is lost.
func TestSoakLifecycle(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("takes long: set WEIR_SOAK=1")
	}
	for i := range 50 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Run("term", TestTermDropsNothing)
			t.Run("reload", TestGatewayReloadUnderLoad)
		})
	}
}

// While the shared store is down the node is ready and says on the admin port that it is
// degraded; what envoyproxy/ratelimit answers stays as it is.
func TestReadyButDegraded(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	n := serve(t, "--limit", "1000/hour by client_id", "--store", "redis://"+redis.Addr)
	ready := func(want string) func() bool {
		return func() bool {
			if code, _ := post(t, n.http+"/shouldAllowRequest", `{"clientId":"1"}`); code != 200 {
				t.Errorf("a decision: %d", code)
			}
			code, body := get(t, n.admin+"/healthz/ready")
			if code != 200 {
				t.Errorf("ready: %d %s", code, body)
			}
			return body == want
		}
	}
	servertest.Await(t, "a node that is well", ready("OK\n"))
	redis.Kill(t)
	servertest.Await(t, "a degraded node", ready("OK\ndegraded: the shared store is unavailable; decisions follow on_store_error\n"))
	if code, body := get(t, n.admin+"/healthcheck"); code != 200 || body != "OK\n" {
		t.Errorf("healthcheck: %d %q", code, body)
	}
	redis.Restart(t)
	servertest.Await(t, "a node that is well again", ready("OK\n"))
}

// While it drains, the node says that it is not ready and still answers; a
// second signal ends it at once.
func TestDrainDelayAndSecondSignal(t *testing.T) {
	n := serve(t, "--limit", "1000/hour by client_id", "--drain-delay", "1m")
	if code, body := get(t, n.admin+"/healthz/ready"); code != 200 {
		t.Errorf("ready: %d %s", code, body)
	}
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "readiness to flip", func() bool {
		code, _ := get(t, n.admin+"/healthz/ready")
		return code == 503
	})
	if code, _ := get(t, n.admin+"/healthcheck"); code != 503 {
		t.Errorf("healthcheck: %d", code)
	}
	if code, _ := get(t, n.admin+"/healthz/live"); code != 200 {
		t.Errorf("live: %d", code)
	}
	if code, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"1"}`); code != 200 || body != `{"allowed":true}` {
		t.Errorf("while draining: %d %s", code, body)
	}
	// Two signals within a quarter of a second are one; send until it ends.
	servertest.Await(t, "the second signal to count", func() bool {
		return n.Signal(syscall.SIGTERM) != nil
	})
	if code := ended(t, n); code != 2 {
		t.Errorf("exit status %d, want 2\n%s", code, n.Output())
	}
}

// rulesStatus is what /rules says.
type rulesStatus struct {
	Generation uint64
	Error      string
	Failures   uint64
}

func (n *testNode) rules(t *testing.T) (s rulesStatus) {
	t.Helper()
	_, body := get(t, n.admin+"/rules")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return s
}

// Under load, a good file takes effect and a broken one changes nothing; no
// request is lost meanwhile, and a client that was limited stays so.
func TestReloadUnderLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(count int) string {
		return fmt.Sprintf("domain: api\ndescriptors:\n  - key: client_id\n    limit: %d/hour\n", count)
	}
	put(rule(2))
	n := serve(t, "--rules", file)
	allowed := func(id string) bool {
		t.Helper()
		_, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"`+id+`"}`)
		return body == `{"allowed":true}`
	}
	l := startLoad(t, n, asksAPI)
	for i, want := range []bool{true, true, false} {
		if got := allowed("a"); got != want {
			t.Errorf("request %d: %v", i+1, got)
		}
	}

	put("domain: api\ndescriptors: [{key: client_id, limit: 3/huor}]\n")
	servertest.Await(t, "the broken file to be seen", func() bool { return n.rules(t).Failures > 0 })
	if s := n.rules(t); s.Generation != 1 || !strings.Contains(s.Error, "rules.yaml:2:") || !strings.Contains(s.Error, `"hour"`) {
		t.Errorf("status after the broken file: %+v", s)
	}
	if _, text := get(t, n.admin+"/metrics"); !strings.Contains(text, "weir_config_reload_success 0\n") {
		t.Error("the metrics do not tell of the broken file")
	}
	if code, _ := get(t, n.admin+"/healthz/ready"); code != 200 {
		t.Errorf("not ready because of a broken file: %d", code)
	}
	if allowed("a") || !allowed("b") {
		t.Error("the last good rules are not in use")
	}

	put(rule(3))
	servertest.Await(t, "the new file to be used", func() bool { return n.rules(t).Generation == 2 })
	if !allowed("a") || allowed("a") {
		t.Error("a limit raised from 2 to 3 must admit one more, and not start afresh")
	}
	if s := n.rules(t); s.Error != "" {
		t.Errorf("status after the good file: %+v", s)
	}

	// SIGHUP reads at once, also what is as it was.
	if err := n.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	put(rule(4))
	servertest.Await(t, "the third file to be used", func() bool { return n.rules(t).Generation == 3 })
	l.end()
}

// Rules that change under the gateway's load lose no request: each is answered
// by the upstream or refused by a limit, over either protocol, and those under
// way settle by the rules that let them in.
func TestGatewayReloadUnderLoad(t *testing.T) {
	upstream, _ := nginx(t)
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP2 %v", h2), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			// Odd ones count failures alone, of which there are none; in all there
			// is a concurrency limit, which must be free again at the end.
			put := func(i int) {
				t.Helper()
				rule := "{limit: 1000000/hour, name: all}"
				if i%2 == 1 {
					rule = "{limit: 100/hour, name: failures, count_on: [5xx, unreachable]}"
				}
				text := "domain: api\ndescriptors:\n  - key: remote_address\n    limits: [" + rule +
					", {limit: 64, algorithm: concurrency, ttl: 1m, name: slots}]\n"
				if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(file+".new", file); err != nil {
					t.Fatal(err)
				}
			}
			put(0)
			n := serve(t, "--rules", file, "--upstream", upstream)
			l := startLoadOver(t, n, asksGateway, h2)
			for i := 1; i <= 6; i++ {
				put(i)
				if err := n.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				servertest.Await(t, "the new rules", func() bool { return n.rules(t).Generation >= uint64(i+1) })
				some := l.answered.Load() + 50
				servertest.Await(t, "load on them", func() bool { return l.answered.Load() >= some || t.Failed() })
			}
			l.end()
			servertest.Await(t, "the slots", func() bool {
				req, err := http.NewRequest("GET", n.http, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				return strings.Contains(res.Header.Get("RateLimit"), `"slots";r=63`)
			})
		})
	}
}

// The admin listener wants its token, but for the probes.
func TestAdminToken(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, "--limit", "10/hour", "--admin-token-file", file)
	const missing = "/debug/pprof/cmdline"
	ask := func(path, auth string) int {
		t.Helper()
		req, err := http.NewRequest("GET", n.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			req.Header.Set("Authorization", auth)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code, body := read(t, res)
		if strings.Contains(body, token) {
			t.Errorf("%s tells the token", path)
		}
		return code
	}
	for _, path := range []string{"/metrics", "/rules", "/config", "/version", "/", "/debug/pprof/", "/debug/pprof/heap"} {
		if got := ask(path, ""); got != 401 {
			t.Errorf("%s without a token: %d", path, got)
		}
		if got := ask(path, "Bearer "+token[1:]); got != 401 {
			t.Errorf("%s with a wrong token: %d", path, got)
		}
		if got := ask(path, "Bearer "+token); got != 200 {
			t.Errorf("%s with the token: %d", path, got)
		}
	}
	if got := ask(missing, "Bearer "+token); got != 404 {
		t.Errorf("%s, where a token may stand: %d", missing, got)
	}
	for _, path := range []string{"/healthz/live", "/healthz/ready", "/healthcheck"} {
		if got := ask(path, ""); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
	}
	// Operators' pages are not on the public port.
	for _, path := range []string{"/metrics", "/debug/pprof/", "/config", "/rules", "/version"} {
		if code, _ := get(t, n.http+path); code != 404 {
			t.Errorf("%s on the public port: %d", path, code)
		}
	}
	// But for the probe that envoyproxy/ratelimit has there.
	if code, _ := get(t, n.http+"/healthcheck"); code != 200 {
		t.Errorf("/healthcheck on the public port: %d", code)
	}
}

// Without a token only requests that are meant for loopback are answered: a
// page whose name was rebound to 127.0.0.1 says its own name.
func TestAdminWithoutTokenChecksHost(t *testing.T) {
	n := serve(t, "--limit", "10/hour")
	req, err := http.NewRequest("GET", n.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := read(t, res); code != 403 {
		t.Errorf("a foreign host: %d", code)
	}
	if code, _ := get(t, n.admin+"/metrics"); code != 200 {
		t.Errorf("loopback: %d", code)
	}
}

// An address in use is an error that says which, and nothing is left running.
func TestAddressInUse(t *testing.T) {
	n := serve(t, "--limit", "10/hour")
	addr := strings.TrimPrefix(n.http, "http://")
	out, err := exec.Command(binary, "serve", "--http", addr, "--admin", "127.0.0.1:0", "--limit", "10/hour").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("%v, want exit status 2", err)
	}
	if said := string(out); !strings.Contains(said, addr) || !strings.Contains(said, "--http") {
		t.Errorf("said %s", said)
	}
}

// A certificate that is renewed is shown to the next client, by the file alone
// or by SIGHUP; curl checks it.
func TestTLSReload(t *testing.T) {
	curl := servertest.Binary(t, "curl")
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, dir, "first")
	n := serve(t, "--limit", "100/hour by client_id", "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key)
	if !strings.HasPrefix(n.http, "https://") {
		t.Fatalf("listens at %s", n.http)
	}
	ask := func(ca string) error {
		out, err := exec.Command(curl, "-sS", "--cacert", ca, "-d", `{"clientId":"1"}`, n.http+"/shouldAllowRequest").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if string(out) != `{"allowed":true}` {
			return fmt.Errorf("answered %s", out)
		}
		return nil
	}
	old := filepath.Join(dir, "old.pem")
	data, err := os.ReadFile(cert)
	if err == nil {
		err = os.WriteFile(old, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(old); err != nil {
		t.Error(err)
	}
	servertest.Certificate(t, dir, "second")
	if err := n.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the renewed certificate", func() bool { return ask(cert) == nil })
	if ask(old) == nil {
		t.Error("the old certificate is still shown")
	}
}

// What was spent is spent under another algorithm and another period of a file that was
// reloaded, and when it is changed back; on Redis also when the node is started with it.
func TestReloadKeepsWhatWasSpent(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testReloadKeeps(t, false, "--store", "memory:") })
	url := "redis://" + servertest.Redis(t).Addr + "?timeout=5s&prefix="
	t.Run("redis", func(t *testing.T) { testReloadKeeps(t, false, "--store", url+"reloaded") })
	t.Run("redis, started anew", func(t *testing.T) { testReloadKeeps(t, true, "--store", url+"started") })
}

func testReloadKeeps(t *testing.T, anew bool, args ...string) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	put := func(limit string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte("domain: api\ndescriptors: [{key: client_id, "+limit+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	passed := func(n *testNode) (sum int) {
		t.Helper()
		for range 12 {
			if _, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"a"}`); body == `{"allowed":true}` {
				sum++
			}
		}
		return sum
	}
	put("limit: 4/day")
	args = append(args, "--rules", file)
	n := serve(t, args...)
	for i, c := range []struct {
		limit string
		want  int
	}{
		{"limit: 4/day", 4},
		{"limit: 6/day, algorithm: token_bucket", 2},
		{"limit: 5/week, algorithm: fixed_window", 0},
		{"limit: 10/week, algorithm: sliding_subwindows", 4},
		{"limit: 6/day, algorithm: token_bucket", 0},
		{"limit: 11/day", 1},
	} {
		put(c.limit)
		switch {
		case i > 0 && anew:
			n.end(t)
			n = serve(t, args...)
		case i > 0:
			servertest.Await(t, "the new file to be used", func() bool { return n.rules(t).Generation == uint64(i+1) })
		}
		if got := passed(n); got != c.want {
			t.Errorf("%s: %d passed, want %d", c.limit, got, c.want)
		}
	}
}
