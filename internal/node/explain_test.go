package node

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
)

// explainedConfig is a configuration with routes, identity and rules, written to files.
func explainedConfig(t *testing.T, upstream string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := write("rules.yaml", `
domain: api
descriptors:
  - {key: remote_address, limit: 60/minute, name: address}
  - {key: user, limit: 10/minute, name: user}
  - {key: account, limit: 5/hour, name: account}
  - {key: path, value: /search, limit: 20/minute, name: search}
  - {key: "header:X-Plan", limit: 30/minute, name: plan}
`)
	keys := write("keys.csv", "sha256,user,tier\n346e50af211b5135824bb2bb58fe0f9e6df228adcf10c58a37fbc46b57baee74,acme,pro\n")
	conf := write("weir.yaml", `
rules: `+rules+`
upstream: `+upstream+`
limits: ["1000/hour by ip"]
identity:
  proxies: {trusted: [127.0.0.1]}
  api_key: {from: ["header:X-API-Key"], file: `+keys+`}
  user: [api_key]
routes:
  - {path: /health, unlimited: true}
  - path: /login/{account}
    methods: [POST]
    cost: 3
    descriptors:
      - entries: [remote_address]
      - entries: [{key: account, from: "param:account", fold: true}]
  - path: /small
    max_header: 1KiB
  - path: /*
    descriptors:
      - entries: [user]
      - entries: [remote_address]
        unless: user
      - entries: [path]
      - entries: [{from: "header:X-Plan"}]
`)
	c := config.Defaults()
	if err := c.LoadFile(conf); err != nil {
		t.Fatal(err)
	}
	return c
}

// policies finds the names of limits in the field RateLimit-Policy.
var policies = regexp.MustCompile(`"([^"]+)";q=`)

// What is explained of a request is what the gateway of a node makes of it.
func TestExplainIsWhatTheGatewayDoes(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	c := explainedConfig(t, upstream.URL)
	s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := func(method, target, peer string, header http.Header, want ...string) {
		t.Helper()
		request := func() *http.Request {
			r := httptest.NewRequest(method, target, nil)
			r.RemoteAddr, r.Header = peer+":1", header.Clone()
			return r
		}
		x, err := ExplainRequest(c, request())
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		s.door("http").ServeHTTP(rec, request())
		var explained, asked []string
		for _, l := range x.Limits {
			explained = append(explained, l.Name)
		}
		for _, m := range policies.FindAllStringSubmatch(strings.Join(rec.Result().Header["Ratelimit-Policy"], ","), -1) {
			asked = append(asked, m[1])
		}
		slices.Sort(explained)
		slices.Sort(asked)
		slices.Sort(want)
		explained = slices.Compact(explained) // several readings of one field
		if !slices.Equal(explained, asked) || !slices.Equal(explained, want) {
			t.Errorf("%s %s of %s: explained %q, the gateway asked %q, want %q", method, target, peer, explained, asked, want)
		}
		if status := rec.Code; x.Status != 0 && x.Status != status || x.Status == 0 && status != http.StatusOK {
			t.Errorf("%s %s of %s: explained status %d, the gateway responded %d", method, target, peer, x.Status, status)
		}
	}
	key := http.Header{"X-Api-Key": {"partner-key"}}
	f("GET", "/health", "192.0.2.1", nil)
	f("POST", "/login/Bob", "192.0.2.1", nil, "1000/hour by ip", "address", "account")
	f("GET", "/login/Bob", "192.0.2.1", nil, "1000/hour by ip", "address")
	f("GET", "/%73earch", "192.0.2.1", key, "user", "search")
	f("GET", "/search", "192.0.2.1", http.Header{"X-Plan": {"a", "b"}}, "1000/hour by ip", "address", "search", "plan")
	f("GET", "/x", "127.0.0.1", http.Header{"X-Forwarded-For": {"203.0.113.9"}}, "1000/hour by ip", "address")
	f("GET", "/x%00", "192.0.2.1", nil)
	f("GET", "/x", "192.0.2.1", http.Header{"X-Api-Key": {"a", "b"}})
	f("GET", "/small", "192.0.2.1", http.Header{"X-Long": {strings.Repeat("x", 2000)}})
	f("CONNECT", "example.com:443", "192.0.2.1", nil)
}

// What is not believed, or not known without a node, is said.
func TestExplainDoubts(t *testing.T) {
	f := func(change func(*config.Config), header http.Header, want string) {
		t.Helper()
		c := explainedConfig(t, "http://127.0.0.1:1")
		change(c)
		r := httptest.NewRequest("GET", "/x", nil)
		r.RemoteAddr, r.Header = "192.0.2.1:1", header
		x, err := ExplainRequest(c, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(x.Notes, "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	none := func(*config.Config) {}
	f(none, nil, "")
	f(none, http.Header{"X-Api-Key": {"nobody's"}}, "api_key is not believed: unknown")
	f(none, http.Header{"X-Forwarded-For": {"203.0.113.9"}}, "X-Forwarded-For is ignored: 192.0.2.1 is not in identity.proxies.trusted")
	token := http.Header{"Authorization": {"Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA"}}
	fetched := func(c *config.Config) {
		c.Identity.JWT.URL, c.Identity.User = "https://login.example/keys", []string{"jwt:sub"}
		c.Routes = nil
	}
	f(fetched, token, "the token is not verified, as its keys are fetched from https://login.example/keys: no user, tier or claim of it is known here")
	f(fetched, nil, "")
}

// A configuration without a gateway, or one that a node would not start with, is an error.
func TestExplainErrors(t *testing.T) {
	f := func(change func(*config.Config), want string) {
		t.Helper()
		c := explainedConfig(t, "http://127.0.0.1:1")
		change(c)
		if _, err := ExplainRequest(c, httptest.NewRequest("GET", "/", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(func(c *config.Config) { c.Upstream, c.Routes = "", nil }, "no gateway")
	f(func(c *config.Config) { c.Rules = "gone.yaml" }, "gone.yaml")
	f(func(c *config.Config) { c.Limits = []string{"5/minut"} }, "did you mean")
	f(func(c *config.Config) { c.Store = "redsi://127.0.0.1:1" }, "did you mean")
	f(func(c *config.Config) { c.Identity.APIKey.File = "gone.csv" }, "gone.csv")
}
