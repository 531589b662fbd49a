package main_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// askFrom sends a proxy's question from a loopback address of its own, or to a
// Unix socket.
func askFrom(t *testing.T, from, network, addr, target string, fields ...string) (int, string) {
	t.Helper()
	d := net.Dialer{}
	if network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, addr)
	}}}
	req, err := http.NewRequest("GET", "http://weir"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, res)
}

// otherLoopback skips a test that needs addresses of 127.0.0.0/8 beside the first.
func otherLoopback(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on its loopback")
	}
}

// Only trusted proxies may ask; all others are told so, charge nobody, and do
// not reach an upstream that stands behind the same port.
func TestWhoMayAsk(t *testing.T) {
	otherLoopback(t)
	upstream, requests := nginx(t)
	for _, args := range [][]string{nil, {"--upstream", upstream}} {
		n := serve(t, append([]string{"--limit", "2/hour by ip", "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.2"}, args...)...)
		addr := strings.TrimPrefix(n.http, "http://")
		ask := func(from, target string, want int, says string) {
			t.Helper()
			code, body := askFrom(t, from, "tcp", addr, target, "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
			if code != want || !strings.Contains(body, says) {
				t.Errorf("from %s, %s: %d %s, want %d and %q", from, target, code, body, want, says)
			}
		}
		for range 5 {
			ask("127.0.0.1", "/auth", 400, "127.0.0.1 is not a trusted proxy")
			ask("127.0.0.3", "/auth/login", 400, "127.0.0.3 is not a trusted proxy: list it in identity.proxies.trusted (--trusted-proxies)")
		}
		ask("127.0.0.2", "/auth", 200, "")
		ask("127.0.0.2", "/auth/any//path?x", 200, "")
		ask("127.0.0.2", "/auth", 429, "quota-exceeded")
		servertest.Await(t, "the log to tell", func() bool { return strings.Contains(n.Output(), "is not a trusted proxy") })
	}
	if n := requests(); n != 0 {
		t.Errorf("the upstream had %d requests", n)
	}
}

// A proxy on the same machine can ask by a Unix socket.
func TestAskedByUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	serve(t, "--http", "unix:"+socket, "--limit", "1/hour by ip", "--forward-auth", "/auth", "--trusted-unix")
	for i, want := range []int{200, 429} {
		if code, body := askFrom(t, "", "unix", socket, "/auth/x", "X-Forwarded-For", "203.0.113.7"); code != want {
			t.Errorf("question %d: %d %s", i, code, body)
		}
	}
}

// What a refusal tells is the same for every account, and names none.
func TestForwardAuthRefusalsTellNothing(t *testing.T) {
	rules := servertest.File(t, "rules.yaml", `
domain: api
descriptors:
  - key: account
    limit: 1/hour
    algorithm: fixed_window
`)
	n := serve(t, "--rules", rules, "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1", "--config", routesOf(t, `
  - path: /login/{account}
    descriptors:
      - entries: [{key: account, from: "param:account"}]
`))
	told := map[string]bool{}
	for _, account := range []string{"fry", "nobody", "x"} {
		for range 2 {
			code, _ := askFrom(t, "127.0.0.1", "tcp", strings.TrimPrefix(n.http, "http://"), "/auth/login/"+account, "X-Forwarded-For", "203.0.113.7")
			if code != 200 && code != 429 {
				t.Errorf("%s: %d", account, code)
			}
		}
		code, body := askFrom(t, "127.0.0.1", "tcp", strings.TrimPrefix(n.http, "http://"), "/auth/login/"+account, "X-Forwarded-For", "203.0.113.7")
		var p map[string]any
		if err := json.Unmarshal([]byte(body), &p); err != nil || code != 429 {
			t.Fatalf("%s: %d %s", account, code, body)
		}
		delete(p, "detail") // the seconds
		delete(p, "retry_after")
		text, err := json.Marshal(p)
		if err != nil || strings.Contains(body, account+`"`) {
			t.Errorf("%s: %s %v", account, body, err)
		}
		told[string(text)] = true
	}
	if len(told) != 1 {
		t.Errorf("accounts are told apart: %v", told)
	}
}
