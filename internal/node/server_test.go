package node_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// client keeps no connection, so that none is left when a test ends, and does not wait
// for ever.
var client = &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, servertest.Body(t, res)
}

// local returns a configuration on free loopback ports.
func local(limits ...string) *config.Config {
	c := config.Defaults()
	c.Limits, c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = limits, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return c
}

// A node that ran and was drained leaves nothing behind, also in a process
// with others.
func TestRunLeavesNothing(t *testing.T) {
	// What tests before this one left is still ending: net/http waits half a
	// second before it closes a connection that it refused.
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	const nodes = 2
	for range nodes {
		s, err := node.New(local("3/hour by client_id"), node.Build{Version: "test"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ready := make(chan node.Ready, 1)
		go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
		r := <-ready
		s.Reload()
		if code, body := get(t, r.URLs["admin"]+"/healthz/ready"); code != 200 {
			t.Errorf("ready: %d %s", code, body)
		}
		if code, body := get(t, r.URLs["admin"]+"/version"); code != 200 || !strings.Contains(body, `"version": "test"`) {
			t.Errorf("version: %d %s", code, body)
		}
		for i := range 4 {
			res, err := client.Post(r.URLs["http"]+"/shouldAllowRequest", "application/json", strings.NewReader(`{"clientId":"1"}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if want := fmt.Sprintf(`{"allowed":%t}`, i < 3); err != nil || string(body) != want {
				t.Errorf("request %d: %s, %v", i+1, body, err)
			}
		}
	}
	cancel()
	for range nodes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A node that cannot have one of its addresses has none, and says which.
func TestRunNeedsEveryAddress(t *testing.T) {
	// What tests before this one left is still ending: net/http waits half a
	// second before it closes a connection that it refused.
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	taken := servertest.Listen(t)
	defer taken.Close()
	c := local("3/hour")
	c.HTTP.Listen = taken.Addr().String()
	s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(context.Background(), func(node.Ready) { t.Error("ready without an address") })
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "--http") {
		t.Errorf("got %v", err)
	}
}

// What a person is told to type is where the node listens.
func TestReadyText(t *testing.T) {
	r := node.Ready{Limits: []string{"1/s", "2/m"}, MoreLimits: 3,
		URLs:     map[string]string{"http": "https://localhost:1", "admin": "http://localhost:2", "grpc": "grpc://localhost:4", "resp": "redis://localhost:5"},
		Upstream: "http://up:3", ForwardAuth: "/auth",
		Forward: "curl -i https://localhost:1/", Ask: "(answers nobody)", Proxy: "curl proxy", Redis: "redis-cli x", GRPC: "weir.v1; for --trust alone"}
	const want = `limits   1/s
         2/m
         and 3 more
gateway  https://localhost:1  ->  http://up:3
         curl -i https://localhost:1/
API      https://localhost:1
         (answers nobody)
proxies  https://localhost:1/auth  (forward-auth)
         curl proxy
gRPC     grpc://localhost:4  (weir.v1; for --trust alone)
redis    redis://localhost:5  (Redis protocol)
         redis-cli x
admin    http://localhost:2/  (dashboard, metrics, health, rules)
`
	if got := r.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Of what is not there nothing is said.
	r = node.Ready{URLs: map[string]string{"resp": "redis://localhost:5"}, Upstream: "http://up:3", ForwardAuth: "/auth"}
	if got, want := r.String(), "redis    redis://localhost:5  (Redis protocol)\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
