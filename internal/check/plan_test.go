package check

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// pickOne returns one of a list.
func pickOne[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

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
		k := pickOne(rnd, askedKeys)
		value := ""
		if len(k.values) > 0 && rnd.IntN(3) > 0 {
			value = pickOne(rnd, k.values)
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
		r := config.Route{Path: pickOne(rnd, []string{"", "/login", "/search/*", "/items/{id}", "/items/{id}", "/"}), Host: pickOne(rnd, []string{"", "", "a.example", "*.example"})}
		if rnd.IntN(3) == 0 {
			r.Methods = []string{pickOne(rnd, []string{"GET", "POST"})}
		}
		if rnd.IntN(6) == 0 {
			r.Unlimited = true
			all = append(all, r)
			continue
		}
		for range rnd.IntN(5) {
			var d []string
			for range 1 + rnd.IntN(2) {
				if k := pickOne(rnd, askedKeys); len(k.from) > 0 {
					from := pickOne(rnd, k.from)
					if strings.Contains(from, "param:") && !strings.Contains(r.Path, "{id}") {
						continue
					}
					d = append(d, from)
				}
			}
			if len(d) > 0 {
				r.Descriptors = append(r.Descriptors, identitytest.DescriptorBy(d...))
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
		a, err := MakePlan(conf, who, set)
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
		for _, u := range a.Found {
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
func paste(t *testing.T, c *config.Config, u Unasked) {
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
