package identity_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"go.yaml.in/yaml/v3"
)

func TestPlanFaults(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Unix: true}, User: []string{"header:X-User"},
		APIKey: identity.APIKeyOptions{From: []string{"bearer"}},
	})
	f := func(want string, ds ...identity.Descriptor) {
		t.Helper()
		_, err := r.Plan(ds)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v", ds, err)
		}
	}
	from := func(unless string, sources ...string) identity.Descriptor {
		d := identity.Descriptor{Unless: unless}
		for _, s := range sources {
			d.Entries = append(d.Entries, identity.EntryFrom{From: s})
		}
		return d
	}
	f(`descriptor 2: entry 1: unknown source "remote_adress" (did you mean "remote_address"?)`, from("", "method"), from("", "remote_adress"))
	f("needs a name", from("", "header:"))
	f("unknown source", from("", "header"))
	f("unknown source", from("", "user:x"))
	f("unknown source", from("", ""))
	f("not the name of a header", from("", "header:a b"))
	f("not the name of a cookie", from("", "cookie:a=b"))
	f("not a number of bits", from("", "remote_address/x"))
	f("not a number of bits", from("", "remote_address/-48"))
	f("24 to 32 bits, not 16", from("", "remote_address/16"))
	f("48 to 128 bits, not 33", from("", "remote_address/33"))
	f("48 to 128 bits, not 129", from("", "remote_address/129"))
	f("set identity.tier (Options.Tier)", from("", "tier"))
	f("set identity.jwt (Options.Token)", from("", "jwt:sub"))
	f("belongs to none", from("", "route"))
	f("belongs to no route", from("", "param:id"))
	f("no entries", identity.Descriptor{})
	f("cost must be", identity.Descriptor{Entries: []identity.EntryFrom{{From: "method"}}, Cost: -1})
	f("cost must be", identity.Descriptor{Entries: []identity.EntryFrom{{From: "method"}}, Cost: math.MaxInt64})
	f("too many", make([]identity.Descriptor, 33)...)
	f("too many", identity.Descriptor{Entries: make([]identity.EntryFrom, 17)})

	// A stranger must not be able to rid himself of a limit.
	for _, s := range []string{"cookie:sid", "header:X-User", "query:user", "api_key", "remote_address", "value:x", "client"} {
		f("anyone can send", from(s, "remote_address"))
	}
	f("", from("user", "remote_address"))
	f("can be made up", from("", "unverified_jwt:sub"))
	f("can be made up", from("", "unverified_jwt:sub"), from("user", "remote_address"))
	f("can be made up", from("", "unverified_jwt:sub", "remote_address"))
	f("can be made up", from("", "unverified_jwt:sub"), from("", "remote_address", "cookie:sid"))
	f("can be made up", from("", "unverified_jwt:sub"), from("", "client"))
	f("", from("", "unverified_jwt:sub"), from("", "method", "remote_address"))
}

// TestEvadable: whom a descriptor binds does not depend on what he sends.
func TestEvadable(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"bearer"}}, User: []string{"header:X-User"},
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8")},
	})
	f := func(want bool, ds ...[]string) {
		t.Helper()
		var all []identity.Descriptor
		for _, sources := range ds {
			d := identity.Descriptor{}
			if sources[0] == "unless user" {
				d.Unless, sources = "user", sources[1:]
			}
			for _, s := range sources {
				d.Entries = append(d.Entries, identity.EntryFrom{From: s})
			}
			all = append(all, d)
		}
		p, err := r.Plan(all)
		if err != nil {
			t.Fatal(err)
		}
		if p.Evadable() != want {
			t.Errorf("%v: got %t", ds, !want)
		}
	}
	f(false)
	f(false, []string{"client"})
	f(false, []string{"value:all"})
	f(false, []string{"user"}, []string{"unless user", "remote_address"})
	f(false, []string{"cookie:sid"}, []string{"method", "path", "remote_address/48"})
	for _, s := range []string{"cookie:sid", "header:X-Session", "query:q", "api_key", "user"} {
		f(true, []string{s})
		f(true, []string{"remote_address", s})
	}
}

// TestStartsWithYAML: routes and options are read from a file as they stand
// here.
func TestStartsWithYAML(t *testing.T) {
	var file struct {
		Identity identity.Options `yaml:"identity"`
		Routes   []identity.Route `yaml:"routes"`
	}
	dec := yaml.NewDecoder(strings.NewReader(`
identity:
  proxies: {trusted: [10.0.0.0/8, "2001:db8::/32"], header: X-Forwarded-For}
  ipv6_prefix: 56
  api_key: {from: [bearer]}
  user: ["header:X-User"]
routes:
- name: login
  host: "*.example.com"
  path: /login/{tenant}
  methods: [POST]
  cost: 3
  priority: 1
  descriptors:
  - entries: [remote_address, "param:tenant"]
  - {entries: [{key: who, from: client}], unless: user, cost: 2}
`))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	r := identitytest.New(t, file.Identity)
	rs, err := r.Routes(file.Routes)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Acquire()
	defer c.Release()
	c.SetHTTP(read(t, "[2001:db8::1]:1", "POST /login/acme HTTP/1.1\nHost: a.example.com\nX-Forwarded-For: 2001:db9:1:2:3::4"))
	if i := rs.Find(c); i != 0 || rs.Route(0).Cost != 3 || rs.Route(0).Priority != 1 || rs.Len() != 1 {
		t.Fatal(i, rs.Route(0))
	}
	if got := fill(t, rs.Plan(0), c); got != "remote_address=2001:db9:1::/56,param:tenant=acme; who=address:2001:db9:1::/56" {
		t.Error(got)
	}
}

func TestRouteFaults(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(want string, rt identity.Route) {
		t.Helper()
		if _, err := r.Routes([]identity.Route{{}, rt}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "route 2") {
			t.Errorf("%+v: %v", rt, err)
		}
	}
	f("begin with a slash", identity.Route{Path: "login"})
	f("whole segments", identity.Route{Path: "/a*"})
	f("whole segments", identity.Route{Path: "/*/a"})
	f("nothing beside it", identity.Route{Path: "/{a}b"})
	f("nothing beside it", identity.Route{Path: "/{}"})
	f("whole segments", identity.Route{Path: "/a{b}"})
	f("two segments {a}", identity.Route{Path: "/{a}/{a}"})
	f("control character", identity.Route{Path: "/%00"})
	f("is . or ..", identity.Route{Path: "/a/../b"})
	f("allow encoded_slash", identity.Route{Path: "/a%2fb"})
	f("unknown word", identity.Route{Path: "/a", Allow: []string{"slashes"}})
	f("no part of", identity.Route{Path: "/a;b"})
	f("no part of", identity.Route{Path: "/a?b=c"})
	f("no part of", identity.Route{Path: `/a\b`})
	f("deeper", identity.Route{Path: strings.Repeat("/a", 65)})
	f("whole labels", identity.Route{Host: "*example.com"})
	f("not the name of a host", identity.Route{Host: "*.*.com"})
	f("not the name of a host", identity.Route{Host: "a b"})
	f("not a method", identity.Route{Methods: []string{""}})
	f("not a method", identity.Route{Methods: []string{"GET POST"}})
	f("cost must be", identity.Route{Cost: -1})
	f("priority", identity.Route{Priority: -1})
	f("no segment {id}", identity.Route{Path: "/{name}", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "param:id"}}}}})
	if _, err := r.Routes(make([]identity.Route, 10_001)); err == nil {
		t.Error("10,001 routes are taken")
	}
}

// TestRoutePathsAreCanonical: a route's path is read as a request's is.
func TestRoutePathsAreCanonical(t *testing.T) {
	f := func(want int, opt identity.PathOptions, route, path string) {
		t.Helper()
		r := identitytest.New(t, identity.Options{Paths: opt})
		rs, err := r.Routes([]identity.Route{{Path: route}})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Path: path})
		if got := rs.Find(c); got != want {
			t.Errorf("%s, %s: %d", route, path, got)
		}
	}
	zero, ignore, keep := identity.PathOptions{}, identity.PathOptions{IgnoreCase: true}, identity.PathOptions{Allow: []string{"encoded_slash"}}
	f(0, zero, "/login/", "/login")
	f(0, zero, "//login/", "/login")
	f(-1, zero, "/login", "//login")
	f(0, zero, "/caf\u00e9/%6cogin", "/caf%c3%a9/login")
	f(0, zero, "/a b", "/a%20b")
	f(-1, zero, "/Login", "/login")
	f(0, ignore, "/Login", "/lOGIN")
	f(0, keep, "/a%2fb", "/a%2Fb")
	f(-1, keep, "/a/{x}", "/a%2Fb")
	f(-1, zero, "/*", "/a%2Fb")
	f(0, zero, "/*", "/")
	f(0, zero, "/", "/")
	f(-1, zero, "/", "/a")
	f(0, zero, "", "/a/b")
	f(0, zero, "/{x}/*", "/a")
	f(-1, zero, "/{x}", "/")
}

// TestManyRoutes: a thousand routes are no slower to look through than a few,
// wherever they differ, and the first in order wins as if all were tried.
func TestManyRoutes(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	const n = 1000
	for what, route := range map[string]func(i int) (identity.Route, identity.Facts){
		"first segment": func(i int) (identity.Route, identity.Facts) {
			return identity.Route{Path: fmt.Sprintf("/s%d/*", i)}, identity.Facts{Path: fmt.Sprintf("/s%d/x", i)}
		},
		"last segment": func(i int) (identity.Route, identity.Facts) {
			return identity.Route{Path: fmt.Sprintf("/api/{v}/s%d", i)}, identity.Facts{Path: fmt.Sprintf("/api/v1/s%d", i)}
		},
		"host": func(i int) (identity.Route, identity.Facts) {
			return identity.Route{Host: fmt.Sprintf("h%d.example.com", i), Path: "/*"}, identity.Facts{Host: fmt.Sprintf("h%d.example.com", i), Path: "/x/y"}
		},
		"domain": func(i int) (identity.Route, identity.Facts) {
			return identity.Route{Host: fmt.Sprintf("*.h%d.example.com", i)}, identity.Facts{Host: fmt.Sprintf("a.b.h%d.example.com", i), Path: "/x/y"}
		},
	} {
		var all []identity.Route
		for i := range n {
			rt, _ := route(i)
			all = append(all, rt)
		}
		rs, err := r.Routes(all)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Acquire()
		start := time.Now()
		for i := range n {
			_, facts := route(i)
			c.Set(facts)
			for range 10 {
				if got := rs.Find(c); got != i {
					t.Fatalf("%s: %+v is route %d", what, facts, got)
				}
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: %s for %d", what, took, 10*n)
		}
		if n := testing.AllocsPerRun(100, func() { rs.Find(c) }); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
		c.Release()
	}
}

// FuzzRoutes: the index finds the route that trying one after the other finds.
func FuzzRoutes(f *testing.F) {
	paths := []string{"/a", "/a/*", "/{x}", "/a/{x}", "/{x}/b", "/{x}/*", "/a/b", "/", "", "/a/{x}/c/*", "/{x}/{y}"}
	hosts := []string{"", "h", "*.h", "a.h", "*.a.h"}
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "/a/b", uint8(3))
	f.Add([]byte{100, 35, 8, 19, 77}, "/a/x/c/d", uint8(1))
	r := identitytest.New(f, identity.Options{})
	f.Fuzz(func(t *testing.T, order []byte, path string, h uint8) {
		if len(order) > 50 {
			return
		}
		facts := identity.Facts{Method: "GET", Path: path, Host: []string{"", "h", "a.h", "b.h", "x.a.h"}[h%5]}
		c := r.Acquire()
		defer c.Release()
		c.Set(facts)
		matches := func(rt identity.Route) bool {
			one, err := r.Routes([]identity.Route{rt})
			if err != nil {
				t.Fatal(err)
			}
			return one.Find(c) == 0
		}
		var all []identity.Route
		want := -1
		for _, b := range order {
			rt := identity.Route{Path: paths[int(b)%len(paths)], Host: hosts[int(b/11)%len(hosts)]}
			if b >= 200 {
				rt.Methods = []string{"POST"}
			}
			if _, err := r.Routes(append(all, rt)); err != nil {
				if !strings.Contains(err.Error(), "never reached") {
					t.Fatal(err)
				}
				// What is refused as never reached must never be.
				if want < 0 && matches(rt) {
					t.Fatalf("%+v is the first of its kind: %v", facts, err)
				}
				continue
			}
			if want < 0 && matches(rt) {
				want = len(all)
			}
			all = append(all, rt)
		}
		rs, err := r.Routes(all)
		if err != nil {
			t.Fatal(err)
		}
		if got := rs.Find(c); got != want {
			t.Fatalf("%+v: %d, not %d", facts, got, want)
		}
	})
}

// HTTP/1.0 knows no Host: whoever leaves it out is limited all the same.
func TestRequestsWithoutHost(t *testing.T) {
	r, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "host"}, {From: "remote_address"}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Acquire()
	defer c.Release()
	c.SetHTTP(read(t, "192.0.2.1:1", "GET /login HTTP/1.0"))
	if got := fill(t, p, c); !strings.Contains(got, "unknown") || !strings.Contains(got, "192.0.2.1") || p.Evadable() {
		t.Errorf("asked %q", got)
	}
}
