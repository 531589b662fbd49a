package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// by is a route's descriptor of sources, each "source" or "key<source".
func by(sources ...string) identity.Descriptor {
	var d identity.Descriptor
	for _, s := range sources {
		key, from, renamed := strings.Cut(s, "<")
		if !renamed {
			key, from = "", s
		}
		d.Entries = append(d.Entries, identity.EntryFrom{Key: key, From: from})
	}
	return d
}

// rulesTold returns /v1/rules of a node: whether each rule is asked, by its path.
func rulesTold(t *testing.T, s *Server) map[string]bool {
	t.Helper()
	data, err := json.Marshal(s.rules.Describe())
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
			c.Rules = rulesFile(t, lines)
			change(c)
			s, got := node(t, c)
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
		c.Upstream, c.Routes = back, []config.Route{{Path: "/login", Descriptors: []identity.Descriptor{by("remote_address")}}}
	}, []string{"auth_type=login", "client_id", `path="/login"`, `path="/login"/remote_address`},
		"sends path, remote_address", `to=routes[0].descriptors add="- {entries: [path, remote_address]}"`,
		`add="- {entries: [{key: auth_type, from: \"value:login\"}]}"`)
	f("a route of another path", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Path: "/other", Descriptors: []identity.Descriptor{by("path", "remote_address"), by("auth_type<value:login"), by("client_id<header:X-Id")}}}
	}, []string{`path="/login"`, `path="/login"/remote_address`}, `to="the end of routes" add="- {descriptors: [{entries: [remote_address]}, {entries: [path, remote_address]}]}"`)
	f("an unlimited route before it", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Path: "/login", Unlimited: true},
			{Descriptors: []identity.Descriptor{by("remote_address"), by("path", "remote_address"), by("auth_type<value:login"), by("client_id<header:X-Id")}}}
	}, []string{`path="/login"`, `path="/login"/remote_address`})
	f("another value", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Descriptors: []identity.Descriptor{by("remote_address"), by("path", "remote_address"), by("auth_type<value:log-in"), by("client_id<header:X-Id")}}}
	}, []string{"auth_type=login"})
	f("all", func(c *config.Config) {
		c.Upstream, c.Routes = back, []config.Route{{Descriptors: []identity.Descriptor{by("remote_address"), by("path", "remote_address"), by("auth_type<value:login"), by("client_id<header:X-Id")}}}
	}, nil)
}

// Tiers that nothing chooses, lists that nothing is looked up in, and domains that only
// the API can ask are warned of; a reload is looked at as well.
func TestPartsThatNobodyAsks(t *testing.T) {
	c := config.Defaults()
	c.Upstream = "http://127.0.0.1:1"
	c.Rules = rulesFile(t, "domain: api\ndeny: {tenant: [x]}\nallow: {path: [/health]}\ndescriptors:\n  - {key: remote_address, limit: 5/minute, tiers: {by: plan, limits: {pro: 9/minute}}}\n")
	s, log := node(t, c)
	for _, want := range []string{`rule="tiers of remote_address"`, `rule="deny list of tenant"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "allow list") {
		t.Errorf("the list of paths is looked at:\n%s", log)
	}
	writeRules(t, c.Rules, "domain: other\ndescriptors:\n  - {key: remote_address, limit: 5/minute}\n  - {key: path, limit: 5/minute}\n")
	s.Reload()
	s.coverage.warn()
	if strings.Count(log.String(), `rule="domain other"`) != 1 || !strings.Contains(log.String(), "only callers of the API can ask") ||
		strings.Contains(log.String(), "rules for callers of the API only") {
		t.Errorf("after the reload the log says\n%s", log)
	}
	if asked := rulesTold(t, s); asked["other/path"] {
		t.Error("a domain that the gateway does not ask is asked")
	}
}

// askedKeys are the keys of random rules, with values, and how a route asks them.
var askedKeys = []struct {
	key    string
	values []string
	from   []string
}{
	{"remote_address", []string{"203.0.113.1"}, []string{"remote_address"}},
	{"path", []string{"/", "/login", "/search/a", "/search/*", "/items/7"}, []string{"path"}},
	{"method", []string{"GET", "POST"}, []string{"method"}},
	{"host", []string{"a.example", "b.example"}, []string{"host"}},
	{"header:X-Plan", []string{"pro"}, []string{"header:X-Plan"}},
	{"auth_type", []string{"login", "other"}, []string{"auth_type<value:login", "auth_type<header:X-Plan"}},
	{"item", []string{"7", "8"}, []string{"item<param:id", "item<header:X-Plan"}},
	{"client_id", nil, nil},
}

func makeAskedRules(rnd *rand.Rand, b *strings.Builder, indent string, depth int) {
	seen := map[string]bool{}
	for range 1 + rnd.IntN(3) {
		k := pick(rnd, askedKeys)
		value := ""
		if len(k.values) > 0 && rnd.IntN(3) > 0 {
			value = pick(rnd, k.values)
		}
		if seen[k.key+value] {
			continue
		}
		seen[k.key+value] = true
		fmt.Fprintf(b, "%s- key: %q\n", indent, k.key)
		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}
		leads := depth < 2 && rnd.IntN(2) == 0
		if !leads || rnd.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  limit: 5/minute\n", indent)
		}
		if leads {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			makeAskedRules(rnd, b, indent+"    ", depth+1)
		}
	}
}

func makeRoutes(rnd *rand.Rand) []config.Route {
	var all []config.Route
	for range 1 + rnd.IntN(3) {
		r := config.Route{Path: pick(rnd, []string{"", "/login", "/search/*", "/items/{id}", "/items/{id}", "/"}), Host: pick(rnd, []string{"", "", "a.example", "*.example"})}
		if rnd.IntN(3) == 0 {
			r.Methods = []string{pick(rnd, []string{"GET", "POST"})}
		}
		if rnd.IntN(6) == 0 {
			r.Unlimited = true
			all = append(all, r)
			continue
		}
		for range rnd.IntN(5) {
			var d []string
			for range 1 + rnd.IntN(2) {
				if k := pick(rnd, askedKeys); len(k.from) > 0 {
					from := pick(rnd, k.from)
					if strings.Contains(from, "param:") && !strings.Contains(r.Path, "{id}") {
						continue
					}
					d = append(d, from)
				}
			}
			if len(d) > 0 {
				r.Descriptors = append(r.Descriptors, by(d...))
			}
		}
		all = append(all, r)
	}
	return all
}

// metBy returns the rules that some request meets, tried one by one.
func metBy(t *testing.T, conf *config.Config, who *identity.Resolver, set *limits.Set) map[string]bool {
	t.Helper()
	routes := make([]identity.Route, len(conf.Routes))
	for i := range conf.Routes {
		r, err := conf.GatewayRoute(i)
		if err != nil {
			t.Fatal(err)
		}
		routes[i] = r.Route
	}
	found, err := who.Routes(routes)
	if err != nil {
		return nil // one of them can never match
	}
	plain, err := who.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, path := range []string{"/", "/login", "/search", "/search/a", "/search/b", "/items/7", "/items/8", "/items/9", "/else"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, host := range []string{"a.example", "b.example", "c.example", "elsewhere"} {
				for _, plan := range []string{"", "pro", "login", "other", "7", "8", "else"} {
					for _, client := range []string{"203.0.113.1", "203.0.113.2"} {
						c := who.Acquire()
						h := http.Header{}
						if plan != "" {
							h.Set("X-Plan", plan)
						}
						c.Set(identity.Facts{Peer: netip.MustParseAddr(client), Method: method, Host: host, Path: path, Header: h})
						p := plain
						if i := found.Find(c); i >= 0 {
							if p = found.Plan(i); conf.Routes[i].Unlimited {
								c.Release()
								continue
							}
						}
						req := weir.Request{Domain: "api"}
						if err := p.Fill(&req, c); err != nil {
							t.Fatal(err)
						}
						for _, d := range set.Explain(&req).Descriptors {
							if d.Outcome == "limited" {
								met[d.Rule] = true
							}
						}
						c.Release()
					}
				}
			}
		}
	}
	return met
}

// Of every rule it is known whether some request behind the routes meets it: each that
// none does is reported, and no other. With the lines that a warning says to add, it
// is met.
func TestFamilyRulesAreAskedOrReported(t *testing.T) {
	seed, cases := seeds.Of(t), 40
	if os.Getenv("WEIR_SOAK") == "1" {
		cases = 3000
	}
	rnd := rand.New(rand.NewPCG(seed, 2))
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer who.Close()
	unmet, pasted := 0, 0
	for range cases {
		var b strings.Builder
		b.WriteString("domain: api\ndescriptors:\n")
		makeAskedRules(rnd, &b, "  ", 0)
		set, err := rules.Parse("r.yaml", []byte(b.String()), rules.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		conf := config.Defaults()
		conf.Upstream, conf.Routes = "http://127.0.0.1:1", makeRoutes(rnd)
		met := metBy(t, conf, who, set)
		if met == nil {
			continue
		}
		a, err := findAsked(conf, who, set)
		if err != nil {
			t.Fatal(err)
		}
		describe := func() string {
			text, err := yaml.Marshal(conf.Routes)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("seed %d\n%s\n%s", seed, b.String(), text)
		}
		for _, r := range set.Rules() {
			if r.Decides() && a.reaches(r) != met[r.Path] {
				t.Fatalf("%s: reached %t, but a request meets it: %t\n%s", r.Path, a.reaches(r), met[r.Path], describe())
			}
		}
		for _, u := range a.found {
			if u.Rule == nil {
				continue
			}
			unmet++
			if u.Add == "" {
				continue
			}
			with := *conf
			with.Routes = slices.Clone(conf.Routes)
			paste(t, &with, u)
			if again := metBy(t, &with, who, set); again != nil && !again[u.Rule.Path] {
				t.Fatalf("%s is not met with %s added to %s\n%s", u.Rule.Path, u.Add, u.To, describe())
			}
			pasted++
		}
	}
	if unmet == 0 || pasted == 0 {
		t.Errorf("%d rules were not asked, %d lines pasted: the test shows nothing", unmet, pasted)
	}
}

// paste adds the lines that a warning says to the routes.
func paste(t *testing.T, c *config.Config, u unasked) {
	t.Helper()
	var err error
	if u.To == "the end of routes" {
		var more []config.Route
		if err = yaml.Unmarshal([]byte(u.Add), &more); err == nil {
			c.Routes = append(c.Routes, more...)
		}
	} else {
		var i int
		if _, err := fmt.Sscanf(u.To, "routes[%d]", &i); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(u.To, ".descriptors") {
			var more []identity.Descriptor
			err = yaml.Unmarshal([]byte(u.Add), &more)
			c.Routes[i].Descriptors = append(slices.Clone(c.Routes[i].Descriptors), more...)
		} else {
			err = yaml.Unmarshal([]byte(u.Add), &c.Routes[i])
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", u.Add, err)
	}
}

// /rules names the rules that nobody asks.
func TestAdminNamesUnaskedRules(t *testing.T) {
	c := config.Defaults()
	c.Upstream, c.Rules = "http://127.0.0.1:1", rulesFile(t, "domain: api\ndescriptors:\n  - {key: client_id, limit: 5/minute}\n")
	s, _ := node(t, c)
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
	c.Upstream, c.Rules = upstream(t), rulesFile(t, b.String())
	s, log := node(t, c)
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
	c.Rules = rulesFile(t, "domain: api\ndeny: {remote_address: [192.0.2.1], path: [/x]}\nallow: {path: [/health]}\ndescriptors:\n  - {key: remote_address, limit: 5/minute}\n  - {key: path, limit: 5/minute}\n")
	c.Routes = []config.Route{{Path: "/a", Descriptors: []identity.Descriptor{by("remote_address"), by("path")}}, {Path: "/b", Descriptors: []identity.Descriptor{by("path")}},
		{Path: "/c"}, {Path: "/d", Unlimited: true}}
	_, log := node(t, c)
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
	if _, log := node(t, c); !strings.Contains(log.String(), `reason="no path is sent without a route" to="the end of routes" add="- {descriptors: [{entries: [remote_address]}, {entries: [path]}]}"`) {
		t.Errorf("requests without a route: %s", log)
	}
	c.Routes[0].Path = ""
	if _, log := node(t, c); strings.Contains(log.String(), "a deny list") {
		t.Errorf("without gaps: %s", log)
	}
}
