package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/gateway"
)

// Every setting of the section gateway, and of a route, reaches the gateway.
func TestGatewaySettings(t *testing.T) {
	c := config.Defaults()
	c.Upstream = "http://127.0.0.1:1/base"
	c.Gateway = config.Gateway{
		PreserveHost: true, ConnectTimeout: time.Second, HeaderTimeout: 2 * time.Second, Timeout: 3 * time.Second,
		MaxBody: 4, MaxDelay: 5 * time.Second, MaxWaiting: 6, HalfClosed: 7 * time.Second,
	}
	c.Routes = []config.Route{{
		Path: "/x", Methods: []string{"PUT"}, Host: "h", Name: "n", Cost: 8,
		Upstream: "h2c://127.0.0.1:2", StripPrefix: "/x", PreserveHost: true,
		ConnectTimeout: 9 * time.Second, HeaderTimeout: 10 * time.Second, Timeout: 11 * time.Second, MaxBody: 12, MaxHeader: 13,
	}}
	opt, err := c.GatewayOptions()
	if err != nil {
		t.Fatal(err)
	}
	if opt.Limits.MaxDelay != 5*time.Second || opt.Limits.MaxWaiting != 6 || opt.HalfClosed != 7*time.Second || opt.Limits.Domain != "api" {
		t.Errorf("got %+v", opt)
	}
	same := func(got, want gateway.Forward, upstream string) {
		t.Helper()
		if got.Upstream.String() != upstream {
			t.Errorf("to %s, want %s", got.Upstream, upstream)
		}
		if got.Upstream = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	same(opt.Default, gateway.Forward{PreserveHost: true, ConnectTimeout: time.Second, HeaderTimeout: 2 * time.Second,
		Timeout: 3 * time.Second, MaxBody: 4}, "http://127.0.0.1:1/base")
	r := opt.Routes[0]
	same(r.Forward, gateway.Forward{StripPrefix: "/x", PreserveHost: true, ConnectTimeout: 9 * time.Second, HeaderTimeout: 10 * time.Second,
		Timeout: 11 * time.Second, MaxBody: 12, MaxHeader: 13}, "h2c://127.0.0.1:2")
	if r.Path != "/x" || r.Host != "h" || r.Name != "n" || r.Cost != 8 || r.Unlimited || !reflect.DeepEqual(r.Methods, []string{"PUT"}) {
		t.Errorf("got %+v", r)
	}
}

// Routes on which a limit in words does not count are told at the start.
func TestLimitInWordsOnRoutes(t *testing.T) {
	by := func(path string, entries ...identity.EntryFrom) config.Route {
		r := config.Route{Path: path, Upstream: "http://127.0.0.1:1"}
		if entries != nil {
			r.Descriptors = []identity.Descriptor{{Entries: entries}}
		}
		return r
	}
	free := by("/free")
	free.Unlimited = true
	c := config.Defaults()
	c.Limits = []string{"5/minute by ip"}
	c.Routes = []config.Route{
		by("/plain"), free,
		by("/address", identity.EntryFrom{From: "remote_address"}),
		by("/renamed", identity.EntryFrom{Key: "remote_address", From: "client"}),
		by("/client", identity.EntryFrom{From: "client"}),
		by("/pair", identity.EntryFrom{From: "remote_address"}, identity.EntryFrom{From: "path"}),
	}
	var log strings.Builder
	s, err := New(c, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := log.String()
	if strings.Count(got, "limit of --limit") != 2 || !strings.Contains(got, "path=/client") || !strings.Contains(got, "path=/pair") {
		t.Errorf("got %s, want warnings of /client and /pair", got)
	}
}

// Rules that are loaded later are looked at as well, each time that they are read.
func TestWarnOfUnlimitedLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("domain: api\ndescriptors:\n  - {key: "+key+", limit: 5/minute}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("remote_address")
	c := config.Defaults()
	c.Rules, c.Upstream = file, "http://127.0.0.1:1"
	lines := make(chan string, 100)
	s, err := New(c, Build{}, slog.New(slog.NewTextHandler(lineWriter(lines), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.coverage.watchRules(ctx) })
	defer watching.Wait()
	defer cancel()
	for _, key := range []string{"user", "client_id"} {
		write(key)
		for range 2 { // changed, and unchanged
			s.rules.reloadFiles()
			for line := range lines {
				if strings.Contains(line, "no rule matches") {
					if !strings.Contains(line, "rules="+key) {
						t.Fatalf("got %s, want that there is only a rule for %s", line, key)
					}
					break
				}
			}
		}
	}
	write("remote_address")
	s.rules.reloadFiles()
	cancel()
	watching.Wait()
	close(lines)
	for line := range lines {
		if strings.Contains(line, "no rule matches") {
			t.Errorf("got %s, though there is a rule", line)
		}
	}
}

// lineWriter sends what is written, a line at a time.
type lineWriter chan<- string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// A request that no rule matches is forwarded without a limit: the log warns at the start.
func TestWarnOfUnlimited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	const rules = "domain: api\ndescriptors:\n  - {key: client_id, limit: 5/minute}\n  - {key: user, limit: 5/minute}\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	from := func(path string, sources ...string) config.Route {
		r := config.Route{Path: path, Upstream: "http://127.0.0.1:1"}
		for _, s := range sources {
			r.Descriptors = append(r.Descriptors, identity.Descriptor{Entries: []identity.EntryFrom{{Key: s, From: "remote_address"}}})
		}
		return r
	}
	free := from("/free")
	free.Unlimited = true
	f := func(change func(*config.Config), want ...string) {
		t.Helper()
		c := config.Defaults()
		c.Rules = file
		change(c)
		var log strings.Builder
		s, err := New(c, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got []string
		for line := range strings.Lines(log.String()) {
			if _, rest, ok := strings.Cut(line, "no rule matches "); ok {
				got = append(got, strings.TrimSpace(rest))
			}
		}
		if !slices.EqualFunc(got, want, strings.HasSuffix) {
			t.Errorf("got %q, want lines that end in %q", got, want)
		}
	}
	const upstream = "http://127.0.0.1:1"
	f(func(c *config.Config) {})
	f(func(c *config.Config) { c.Upstream = upstream }, `domain=api keys=remote_address rules="client_id, user"`)
	f(func(c *config.Config) { c.Upstream, c.API.Domain = upstream, "other" }, "domain=other keys=remote_address rules=none")
	f(func(c *config.Config) { c.Upstream, c.Limits = upstream, []string{"5/minute by all"} })
	f(func(c *config.Config) { c.Routes = []config.Route{from("/user", "other", "user"), free} })
	f(func(c *config.Config) {
		c.Routes = []config.Route{from("/a", "user"), from("/b"), from("/c", "client", "ip")}
	},
		`route=2 host="" path=/b domain=api keys=remote_address rules="client_id, user"`,
		`route=3 host="" path=/c domain=api keys="client, ip" rules="client_id, user"`)
}

// A limit by what only callers of the API name is told of where requests are forwarded
// or proxies ask.
func TestWarnOfClientIDs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		warns  int
	}{
		"the API":   {func(*config.Config) {}, 0},
		"a gateway": {func(c *config.Config) { c.Upstream = "http://127.0.0.1:1" }, 1},
		"forward-auth": {func(c *config.Config) {
			c.ForwardAuth.Prefix, c.Identity.Proxies.Trusted = "/auth", []string{"127.0.0.1"}
		}, 1},
	} {
		conf := config.Defaults()
		conf.Limits = []string{"5/minute by client_id", "100/minute by ip"}
		c.change(conf)
		_, log := startNode(t, conf)
		if n := strings.Count(log.String(), `limit="5/minute by client_id"`); n != c.warns || strings.Contains(log.String(), `limit="100/minute by ip"`) {
			t.Errorf("%s: %d warnings:\n%s", name, n, log)
		}
	}
}
