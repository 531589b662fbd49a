package node

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// rulesTold returns /v1/rules of a node: whether each rule is asked, by its path.
func rulesTold(t *testing.T, s *Server) map[string]bool {
	t.Helper()
	data, err := json.Marshal(s.rules.Describe(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Rules []struct {
			Domain, Rule string
			Asked        *bool
		}
	}
	if err := json.Unmarshal(data, &told); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, r := range told.Rules {
		if r.Asked == nil {
			t.Fatalf("%s has no member asked", r.Rule)
		}
		asked[r.Domain+"/"+r.Rule] = *r.Asked
	}
	return asked
}

// Rules that no route asks are said everywhere: in the log with the lines to add, in
// /v1/rules and /rules, and in a metric.
func TestRulesThatNobodyAsks(t *testing.T) {
	const lines = `domain: api
descriptors:
  - {key: remote_address, limit: 60/minute}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, limit: 5/minute, name: login}
  - {key: auth_type, value: login, limit: 5/minute}
  - {key: client_id, limit: 5/minute}
`
	f := func(name string, change func(*config.Config), unasked []string, log ...string) {
		t.Run(name, func(t *testing.T) {
			c := config.Defaults()
			c.Rules = servertest.File(t, "rules.yaml", lines)
			change(c)
			s, got := startNode(t, c)
			var not []string
			for rule, asked := range rulesTold(t, s) {
				if !asked {
					not = append(not, strings.TrimPrefix(rule, "api/"))
				}
			}
			slices.Sort(not)
			if !slices.Equal(not, unasked) {
				t.Errorf("not asked are %q, want %q", not, unasked)
			}
			for _, want := range log {
				if !strings.Contains(got.String(), want) {
					t.Errorf("the log does not say %s:\n%s", want, got)
				}
			}
			n := 0
			for _, rule := range s.rules.status().Unasked {
				if slices.Contains(unasked, strings.TrimPrefix(rule, "api/")) {
					n++
				}
			}
			if warned := strings.Count(got.String(), "rule without effect"); warned != n {
				t.Errorf("%d warnings of %d rules:\n%s", warned, n, got)
			}
			if got, want := scrape(t, s, "weir_rules_unreachable"), fmt.Sprintf("weir_rules_unreachable %d", n); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	const back = "http://127.0.0.1:1"
	f("only the API", func(*config.Config) {}, nil)
	f("no routes", func(c *config.Config) { c.Upstream = back }, []string{"auth_type=login", "client_id"}, "only callers of the API send client_id", "requests have no auth_type")
	f("forward-auth without routes", func(c *config.Config) {
		c.ForwardAuth.Prefix, c.Identity.Proxies.Trusted = "/auth", []string{"127.0.0.1"}
	}, []string{"auth_type=login", "client_id"})
	f("a route by address", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Path: "/login", Descriptors: []identity.Descriptor{identitytest.DescriptorBy("remote_address")}}}
	}, []string{"auth_type=login", "client_id", `path="/login"`, `path="/login"/remote_address`},
		"sends path, remote_address", `to=routes[0].descriptors add="- {entries: [path, remote_address]}"`,
		`add="- {entries: [{key: auth_type, from: \"value:login\"}]}"`)
	f("a route of another path", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Path: "/other", Descriptors: []identity.Descriptor{identitytest.DescriptorBy("path", "remote_address"), identitytest.DescriptorBy("auth_type<value:login"), identitytest.DescriptorBy("client_id<header:X-Id")}}}
	}, []string{`path="/login"`, `path="/login"/remote_address`}, `to="the end of routes" add="- {descriptors: [{entries: [remote_address]}, {entries: [path, remote_address]}]}"`)
	f("an unlimited route before it", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Path: "/login", Unlimited: true},
			{Descriptors: []identity.Descriptor{identitytest.DescriptorBy("remote_address"), identitytest.DescriptorBy("path", "remote_address"), identitytest.DescriptorBy("auth_type<value:login"), identitytest.DescriptorBy("client_id<header:X-Id")}}}
	}, []string{`path="/login"`, `path="/login"/remote_address`})
	f("another value", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Descriptors: []identity.Descriptor{identitytest.DescriptorBy("remote_address"), identitytest.DescriptorBy("path", "remote_address"), identitytest.DescriptorBy("auth_type<value:log-in"), identitytest.DescriptorBy("client_id<header:X-Id")}}}
	}, []string{"auth_type=login"})
	f("all", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Descriptors: []identity.Descriptor{identitytest.DescriptorBy("remote_address"), identitytest.DescriptorBy("path", "remote_address"), identitytest.DescriptorBy("auth_type<value:login"), identitytest.DescriptorBy("client_id<header:X-Id")}}}
	}, nil)
}

// Tiers that nothing chooses, lists that nothing is looked up in, and domains that only
// the API can ask are warned of; a reload is looked at as well.
func TestPartsThatNobodyAsks(t *testing.T) {
	c := config.Defaults()
	c.Upstream = "http://127.0.0.1:1"
	c.Rules = servertest.File(t, "rules.yaml", "domain: api\ndeny: {tenant: [x]}\nallow: {path: [/health]}\ndescriptors:\n  - {key: remote_address, limit: 5/minute, tiers: {by: plan, limits: {pro: 9/minute}}}\n")
	s, log := startNode(t, c)
	for _, want := range []string{`rule="tiers of remote_address"`, `rule="deny list of tenant"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "allow list") {
		t.Errorf("the list of paths is looked at:\n%s", log)
	}
	servertest.Write(t, c.Rules, "domain: other\ndescriptors:\n  - {key: remote_address, limit: 5/minute}\n  - {key: path, limit: 5/minute}\n")
	s.Reload()
	s.coverage.warnUnlimited()
	if strings.Count(log.String(), `rule="domain other"`) != 1 || !strings.Contains(log.String(), "only callers of the API can ask") ||
		strings.Contains(log.String(), "rules for callers of the API only") {
		t.Errorf("after the reload the log says\n%s", log)
	}
	if asked := rulesTold(t, s); asked["other/path"] {
		t.Error("a domain that the gateway does not ask is asked")
	}
}

// /rules names the rules that nobody asks.
func TestAdminNamesUnaskedRules(t *testing.T) {
	c := config.Defaults()
	c.Upstream, c.Rules = "http://127.0.0.1:1", servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: client_id, limit: 5/minute}\n")
	s, _ := startNode(t, c)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/rules", nil)
	r.Host = "localhost"
	s.adminHandler("").ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"api/client_id"`) {
		t.Errorf("got %s", w.Body)
	}
}

// A rule beneath more keys than a descriptor has is told of, and stops no request.
func TestRulesThatAreTooDeep(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: api\ndescriptors:\n")
	for depth := range identity.MaxRuleKeys {
		fmt.Fprintf(&b, "%s- key: header:X-%d\n%s  descriptors:\n", strings.Repeat("    ", depth), depth, strings.Repeat("    ", depth))
	}
	fmt.Fprintf(&b, "%s- {key: path, limit: 1/year}\n", strings.Repeat("    ", identity.MaxRuleKeys))
	c := config.Defaults()
	c.Upstream, c.Rules = upstream(t), servertest.File(t, "rules.yaml", b.String())
	s, log := startNode(t, c)
	if !strings.Contains(log.String(), "lists of up to 16 keys are asked") {
		t.Errorf("the log does not say so: %s", log)
	}
	var header []string
	for depth := range identity.MaxRuleKeys {
		header = append(header, fmt.Sprintf("X-%d", depth), "x")
	}
	if code := gatewayStatus(t, s, "GET", "/", "192.0.2.1", header...); code != 200 {
		t.Errorf("status %d", code)
	}
}

// A deny list that some routes do not look at is warned of, with the line that mends
// the first of them.
func TestDenyListsThatSomeRoutesSkip(t *testing.T) {
	c := config.Defaults()
	c.Upstream = "http://127.0.0.1:1"
	c.Rules = servertest.File(t, "rules.yaml", "domain: api\ndeny: {remote_address: [192.0.2.1], path: [/x]}\nallow: {path: [/health]}\ndescriptors:\n  - {key: remote_address, limit: 5/minute}\n  - {key: path, limit: 5/minute}\n")
	c.Routes = []config.Route{{Path: "/a", Descriptors: []identity.Descriptor{identitytest.DescriptorBy("remote_address"), identitytest.DescriptorBy("path")}}, {Path: "/b", Descriptors: []identity.Descriptor{identitytest.DescriptorBy("path")}},
		{Path: "/c"}, {Path: "/d", Unlimited: true}}
	_, log := startNode(t, c)
	for _, want := range []string{`rule="deny list of remote_address" reason="no remote_address is sent by route 2" to=routes[1].descriptors add="- {entries: [remote_address]}"`,
		`rule="deny list of path" reason="no path is sent by route 3, and without a route" to=routes[2] add="descriptors: [{entries: [remote_address]}, {entries: [path]}]"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
	if n := strings.Count(log.String(), "deny list not applied to all requests"); n != 2 {
		t.Errorf("%d warnings of lists:\n%s", n, log)
	}
	c.Routes = c.Routes[:1]
	if _, log := startNode(t, c); !strings.Contains(log.String(), `reason="no path is sent without a route" to="the end of routes" add="- {descriptors: [{entries: [remote_address]}, {entries: [path]}]}"`) {
		t.Errorf("requests without a route: %s", log)
	}
	c.Routes[0].Path = ""
	if _, log := startNode(t, c); strings.Contains(log.String(), "a deny list") {
		t.Errorf("without gaps: %s", log)
	}
}
