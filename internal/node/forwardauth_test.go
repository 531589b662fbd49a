package node

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
)

// asking returns a configuration in which proxies on loopback may ask.
func asking(limits ...string) *config.Config {
	c := config.Defaults()
	c.Limits, c.ForwardAuth.Prefix, c.Identity.Proxies.Trusted = limits, "/auth", []string{"127.0.0.1"}
	return c
}

// What cannot work is said at the start.
func TestForwardAuthSettings(t *testing.T) {
	f := func(want string, change func(*config.Config)) {
		t.Helper()
		c := asking("5/minute by ip")
		change(c)
		s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("", func(*config.Config) {})
	f("no proxy is trusted: list your proxies in --trusted-proxies", func(c *config.Config) { c.Identity.Proxies.Trusted = nil })
	f("", func(c *config.Config) { c.Identity.Proxies.Trusted, c.Identity.Proxies.Unix = nil, true })
	f("at least one segment", func(c *config.Config) { c.ForwardAuth.Prefix = "/" })
	f("without a slash at its end", func(c *config.Config) { c.ForwardAuth.Prefix = "/auth/" })
	f("does not begin with a slash", func(c *config.Config) { c.ForwardAuth.Prefix = "auth" })
	f("count by ip or by all", func(c *config.Config) { c.Limits = []string{"5/minute by client_id"} })
	f("needs the gRPC port", func(c *config.Config) { c.ExtAuthz.Enabled, c.GRPC.Listen = true, "" })
	f("--ext-authz: no limit applies", func(c *config.Config) {
		c.ExtAuthz.Enabled, c.Limits, c.ForwardAuth.Prefix = true, []string{"5/minute by client_id"}, ""
	})
	f("", func(c *config.Config) {
		c.ExtAuthz.Enabled, c.Routes, c.ForwardAuth.Prefix = true, []config.Route{{Path: "/login"}}, ""
	})
	// Routes without an upstream are for proxies, or for nobody.
	f("", func(c *config.Config) { c.Routes = []config.Route{{Path: "/login"}} })
	f("routes[0] has no upstream", func(c *config.Config) {
		c.Routes = []config.Route{{Path: "/login"}, {Path: "/x", Upstream: "http://127.0.0.1:1"}}
	})
	f("routes[0] has no upstream", func(c *config.Config) { c.Routes, c.ForwardAuth.Prefix = []config.Route{{Path: "/login"}}, "" })
	f("it is never reached", func(c *config.Config) { c.Routes = []config.Route{{}, {Path: "/login"}} })
}

// The door stands beside the API, and beside the gateway; the domains it knows
// are those of the rules.
func TestForwardAuthDoor(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("domain: shop\ndescriptors:\n  - {key: remote_address, limit: 1/hour}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{"", "http://127.0.0.1:1"} {
		c := asking("2/hour by ip")
		c.Upstream, c.Rules = upstream, rules
		var log strings.Builder
		c.Trust = []string{"127.0.0.1"}
		s, err := New(c, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ask := func(target string) int {
			r := httptest.NewRequest("POST", target, strings.NewReader(`{"clientId":"1"}`))
			r.RemoteAddr = "127.0.0.1:1"
			if strings.HasPrefix(target, "/auth") {
				r.Header.Set("X-Forwarded-For", "203.0.113.7")
			}
			rec := httptest.NewRecorder()
			s.door("http").ServeHTTP(rec, r)
			return rec.Code
		}
		for _, q := range []struct {
			target string
			want   int
		}{{"/auth/x", 200}, {"/auth//y", 200}, {"/auth/x", 429}, {"/auth:domain=shop/x", 200}, {"/auth:domain=shop/x", 429},
			{"/auth:domain=shpo/x", 400}, {"/auth", 400}, {"/shouldAllowRequest", 200}} {
			if got := ask(q.target); got != q.want {
				t.Errorf("upstream %q, %s: %d, want %d", upstream, q.target, got, q.want)
			}
		}
		if !strings.Contains(log.String(), "no rule has the domain") {
			t.Errorf("the log says %s", log.String())
		}
	}
}

// door returns what answers on a section's listener.
func (s *Server) door(section string) http.Handler {
	for _, f := range s.listeners {
		if f.section == section {
			return f.serve.(*httpServer).srv.Handler
		}
	}
	return nil
}

// A header that names the user is believed from proxies, which hand on what
// clients send unless they are told otherwise.
func TestWarnOfHandedOnHeaders(t *testing.T) {
	c := asking("5/minute by ip")
	c.Identity.User, c.Identity.Tier = []string{"header:X-User"}, []string{"header:X-Tier"}
	var log strings.Builder
	s, err := New(c, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := log.String(); !strings.Contains(got, "header=X-User") || !strings.Contains(got, "header=X-Tier") {
		t.Errorf("the log says %s", got)
	}
}

// Limits that proxies cannot be answered by are told at the start.
func TestLimitsThatProxiesCannotAsk(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`
domain: api
descriptors:
  - key: remote_address
    limits:
      - {limit: 5, algorithm: concurrency, ttl: 10s, name: running}
      - {limit: 5/hour, count_on: [401], name: failures}
      - 10/hour
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := asking()
	c.Rules = rules
	var log strings.Builder
	s, err := New(c, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := strings.Count(log.String(), "their end is not known"); got != 2 {
		t.Errorf("%d warnings, want 2:\n%s", got, log.String())
	}
}
