package node_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/shed"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every impossible value is reported, all of them at once, and says which flag
// to change.
func TestImpossibleValues(t *testing.T) {
	f := func(change func(*config.Config), want ...string) {
		t.Helper()
		c := config.Defaults()
		c.Limits, c.HTTP.Listen, c.Admin.Listen = []string{"10/second"}, "127.0.0.1:0", "127.0.0.1:0"
		change(c)
		s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
			t.Errorf("accepted: want %q", want)
			return
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
	}
	f(func(c *config.Config) { c.Limits = nil }, `--limit "100/minute by ip"`, "--rules FILE")
	f(func(c *config.Config) { c.HTTP.Listen, c.GRPC.Listen, c.API.Domain = "", "", "" }, "--http ", "api.domain")
	f(func(c *config.Config) { c.HTTP.Listen, c.ForwardAuth.Prefix = "", "/auth" }, "--http ", "forward-auth answer")
	f(func(c *config.Config) { c.Upstream = "localhost:3000" }, "--upstream", "http://")
	f(func(c *config.Config) { c.Upstream = "http://" }, "names no host")
	f(func(c *config.Config) { c.Upstream = "http://h?x=1" }, "query")
	f(func(c *config.Config) { c.Upstream, c.Limits = "http://h", []string{"10/second by client_id"} }, "no limit applies to what is forwarded", "by ip")
	f(func(c *config.Config) { c.Upstream = "http://ann:sesame@h" }, "must not have", "xxxxx")
	f(func(c *config.Config) { c.Routes = []config.Route{{Path: "/a"}} }, "routes[0] has no upstream")
	f(func(c *config.Config) { c.Routes = []config.Route{{Path: "/a", Upstream: "h:1"}} }, "routes[0].upstream", "must begin with")
	f(func(c *config.Config) { c.Upstream, c.Routes = "http://h", []config.Route{{Path: "a"}} }, "route 1", "does not begin with a slash")
	f(func(c *config.Config) { c.Upstream, c.Routes = "http://h", []config.Route{{StripPrefix: "a"}} }, "strip prefix", "route 1")
	f(func(c *config.Config) {
		c.Upstream, c.Routes = "http://h", []config.Route{{Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "nobody"}}}}}}
	}, "route 1", `"nobody"`)
	f(func(c *config.Config) { c.Upstream, c.Routes = "http://h", []config.Route{{MaxBody: -1}} }, "must not be negative")
	f(func(c *config.Config) { c.Gateway.MaxWaiting = 0 }, "gateway.max_delayed")
	f(func(c *config.Config) { c.Gateway.Timeout = -1 }, "gateway.timeout")
	f(func(c *config.Config) { c.Identity.IPv6Prefix = 20 }, "identity", "48")
	f(func(c *config.Config) { c.Identity.Proxies.Header = "X-Real-IP" }, "never trusted")
	f(func(c *config.Config) { c.Identity.Proxies.Trusted = []string{"here"} }, `--trusted-proxies "here"`)
	f(func(c *config.Config) { c.Identity.User = []string{"header:X-User"} }, "never trusted")
	f(func(c *config.Config) { c.HTTP.ProxyProtocol = []string{"here"} }, `--proxy-protocol "here"`)
	f(func(c *config.Config) {
		c.HTTP.Listen, c.HTTP.ProxyProtocol = "unix:/run/w.sock", []string{"10.0.0.0/8"}
	}, "peers of a Unix socket have none")
	f(func(c *config.Config) { c.Trust = []string{"10.0.0.0/8", "neighbour"} }, `--trust "neighbour"`)
	f(func(c *config.Config) { c.Store = "redsi://h" }, `unknown scheme "redsi"`, "memory")
	f(func(c *config.Config) { c.Store = "memory:?max_byte=1" }, `did you mean "max_bytes"?`)
	f(func(c *config.Config) { c.Store = "memory:?max_bytes=-1" }, "not a number of bytes")
	f(func(c *config.Config) { c.Store = "memory://host" }, "takes no name")
	f(func(c *config.Config) { c.HTTP.TLS.Cert = "x" }, "http.tls.cert and http.tls.key go together")
	f(func(c *config.Config) { c.Admin.TLS.ClientCA = "x" }, "admin.tls.client_ca needs")
	f(func(c *config.Config) { c.HTTP.TLS.Cert, c.HTTP.TLS.Key = "gone.pem", "gone.pem" }, "gone.pem")
	f(func(c *config.Config) { c.API.ReserveTTL = 25 * time.Hour }, "api.reserve_ttl")
	f(func(c *config.Config) { c.API.ReserveKeyFile = "gone" }, "api.reserve_key_file", "gone")
	f(func(c *config.Config) { c.Rules, c.Limits = "gone.yaml", nil }, "gone.yaml")
	f(func(c *config.Config) { c.Drain.Timeout = -1 }, "--drain-timeout")
	f(func(c *config.Config) { c.HTTP.ReadHeaderTimeout = 0 }, "http.read_header_timeout")
	f(func(c *config.Config) { c.HTTP.MaxHeaderBytes = 10 }, "http.max_header_bytes")
	f(func(c *config.Config) { c.HTTP.MaxConnections = -1 }, "http.max_connections")
	f(func(c *config.Config) { c.Log.Level = "loud" }, "--log-level")
	f(func(c *config.Config) { c.Log.Format = "xml" }, "--log-format")
	f(func(c *config.Config) { c.Limits = []string{"10/secnd"} }, `did you mean "second"?`)
	f(func(c *config.Config) { c.Limits = []string{"10/second", "10/second"} }, "given twice")
	f(func(c *config.Config) { c.Admin.Token = "short" }, "fewer than 16")
	f(func(c *config.Config) { c.Admin.Token, c.Admin.TokenFile = "0123456789abcdef", "f" }, "keep one")
	f(func(c *config.Config) { c.Admin.TokenFile = "gone" }, "admin token", "gone")
	f(func(c *config.Config) { c.Events.URL = "kafak://h/t" }, "--events", `did you mean "kafka"?`)
	f(func(c *config.Config) { c.Events.URL = "on" }, "--events", "not a URL")
	f(func(c *config.Config) { c.Events.URL = "local:x" }, "--events", "takes nothing")
	f(func(c *config.Config) { c.Events.URL = "amqp://u:sesame@h?quee=a" }, "--events", `did you mean "queue"`)
	f(func(c *config.Config) { c.Analytics.URL = "sqlit:x" }, "--analytics", `did you mean "sqlite"?`)
	f(func(c *config.Config) { c.Analytics.URL = "on" }, "--analytics", "not a URL")
	f(func(c *config.Config) { c.Analytics.URL = "memory:x" }, "--analytics", "takes nothing")
	f(func(c *config.Config) { c.Analytics.URL = "sqlite:/no/such/folder/weir.db" }, "--analytics", "/no/such/folder")
	f(func(c *config.Config) { c.Analytics.URL = "postgres://u:sesame@h:1:2/x" }, "--analytics")
	f(func(c *config.Config) { c.Analytics.URL, c.Events.URL = "sqlite:x", "off" }, "nothing to keep")
	f(func(c *config.Config) { c.Analytics.KeepHours = time.Minute }, "analytics.retention_hours")
	f(func(c *config.Config) { c.Analytics.MaxClients = 5 }, "analytics.max_clients")
	f(func(c *config.Config) { c.Events.Sample = -1 }, "--events-sample")
	f(func(c *config.Config) { c.Events.Backlog = 1 }, "events.backlog")
	f(func(c *config.Config) { c.Events.Node = "a b" }, "events.node")
	f(func(c *config.Config) { c.Events.Region = "eu/1" }, "events.region")
	f(func(c *config.Config) { c.Events.SecretFile = "gone" }, "events.secret_file", "gone")
	f(func(c *config.Config) { c.Events.SecretFile = write(t, "secret", "short") }, "events.secret_file", "at least 16")
}

// The admin listener refuses to leave loopback without a token.
func TestAdminNeedsToken(t *testing.T) {
	f := func(addr string, ok bool) {
		t.Helper()
		c := config.Defaults()
		c.Limits, c.Admin.Listen = []string{"10/second"}, addr
		s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			defer s.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--admin-token-file") {
			t.Errorf("no cure in: %v", err)
		}
	}
	f("127.0.0.1:6070", true)
	f("localhost:6070", true)
	f("[::1]:6070", true)
	f("127.9.9.9:6070", true)
	f("", true)
	f(":6070", false)
	f("0.0.0.0:6070", false)
	f("[::]:6070", false)
	f("10.0.0.1:6070", false)
	f("host.example:6070", false)
}

// Shedding is a limit too: it needs no other beside it.
func TestShedAlone(t *testing.T) {
	c := config.Defaults()
	c.Shed, c.Upstream = &shed.Options{InFlight: shed.InFlightOptions{Limit: 5}}, "http://127.0.0.1:1"
	c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
