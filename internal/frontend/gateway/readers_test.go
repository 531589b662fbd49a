package gateway_test

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/targets"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// routedBy notes which routes a request is counted by, and limits nothing.
type routedBy struct{ route string }

func (n *routedBy) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	n.route = ""
	for _, d := range r.Descriptors {
		n.route = strings.TrimSpace(n.route + " " + d.Entries[0].Value)
	}
	return dst
}

// doors are all ways in, over the same routes. Each says whether a target passes.
type doors struct {
	counted routedBy
	up      lineOf
	pass    map[string]func(target string) bool
}

// openDoors opens the doors, with routes by their names.
func openDoors(t testing.TB, routes ...identity.Route) *doors {
	t.Helper()
	return openDoorsWith(t, identity.PathOptions{}, routes)
}

// openDoorsWith opens the doors before upstreams that read paths so.
func openDoorsWith(t testing.TB, paths identity.PathOptions, routes []identity.Route) *doors {
	t.Helper()
	for i := range routes {
		if r := &routes[i]; !r.Unlimited {
			r.Descriptors = []identity.Descriptor{{Entries: []identity.EntryFrom{{Key: "route", From: "route"}, {Key: "ip", From: "remote_address"}}}}
		}
	}
	d := &doors{}
	d.open(t, paths, nil, routes)
	return d
}

// openDoorsByPath opens the doors without a route, where all requests are counted by path, and
// that of programs, which has no routes.
func openDoorsByPath(t testing.TB, allow ...string) *doors {
	t.Helper()
	d := &doors{}
	d.open(t, identity.PathOptions{Allow: allow}, []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "path"}}}}, nil)
	return d
}

// open opens the doors: by routes, or by descriptors and also that of programs.
func (d *doors) open(t testing.TB, paths identity.PathOptions, by []identity.Descriptor, routes []identity.Route) {
	t.Helper()
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	t.Cleanup(func() { store.Close() })
	limiter, err := weir.New(store, &d.counted, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	who := identitytest.New(t, identity.Options{Paths: paths, Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}})
	limits := httplimit.Options{Limiter: limiter, Identity: who}
	if len(by) > 0 {
		if limits.Plan, err = who.Plan(by); err != nil {
			t.Fatal(err)
		}
	}
	opt := authorize.Options{Limiter: limiter, Identity: who, Plan: limits.Plan, Routes: routes}
	forward := gateway.Options{Limits: limits, Default: gateway.Forward{Transport: &d.up, Upstream: &url.URL{Scheme: "http", Host: "upstream.example"}}}
	for _, r := range routes {
		forward.Routes = append(forward.Routes, gateway.Route{Route: r})
	}
	g, err := gateway.New(forward)
	if err != nil {
		t.Fatal(err)
	}
	f, err := forwardauth.New(forwardauth.Options{Authorize: opt})
	if err != nil {
		t.Fatal(err)
	}
	e, err := extauthz.New(extauthz.Options{Authorize: opt})
	if err != nil {
		t.Fatal(err)
	}
	d.pass = map[string]func(string) bool{
		"gateway": func(target string) bool { return passes(t, g, target) },
		"forward-auth, by X-Forwarded-Uri": func(target string) bool {
			return passes(t, f, "/auth", "X-Forwarded-Method: GET", "X-Forwarded-Uri: "+target)
		},
		"forward-auth, by X-Original-URI": func(target string) bool {
			return passes(t, f, "/auth", "X-Original-Method: GET", "X-Original-URI: "+target)
		},
		"forward-auth, by X-Original-URL": func(target string) bool {
			if target[0] == '/' {
				target = "http://h" + target
			}
			return passes(t, f, "/auth", "X-Original-Method: GET", "X-Original-URL: "+target)
		},
		"ext_authz over HTTP": func(target string) bool {
			if target[0] != '/' { // Envoy has cut it
				_, query, has := strings.Cut(target, "?")
				if target = targets.Path(target); has {
					target += "?" + query
				}
			}
			return passes(t, f, "/auth"+target)
		},
		"ext_authz over gRPC": func(target string) bool {
			a, err := e.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7"}}}},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h", Path: target}}}})
			if err != nil {
				t.Fatal(err)
			}
			return a.GetOkResponse() != nil
		},
	}
	if len(by) > 0 {
		m, err := httplimit.New(limits)
		if err != nil {
			t.Fatal(err)
		}
		in := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		d.pass["middleware"] = func(target string) bool { return passes(t, in, target) }
	}
}

// passes reports whether h says yes to a GET of target with further lines.
func passes(t testing.TB, h http.Handler, target string, lines ...string) bool {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n" + strings.Join(append(lines, "", ""), "\r\n"))))
	if err != nil {
		return false // as the server answers 400
	}
	r.RemoteAddr = "192.0.2.1:1"
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code >= 300 && rec.Code != 400 && rec.Code != 404 {
		t.Errorf("%s %q is answered %d", target, lines, rec.Code)
	}
	return rec.Code < 300
}

// routeOf is the route of segments, as TestFamilyReadersAgree has them.
func routeOf(s []string) string {
	switch {
	case slices.Equal(s, []string{"health"}):
		return "health"
	case len(s) > 0 && (s[0] == "graphql" || s[0] == "static" || s[0] == "admin"):
		return s[0]
	case len(s) == 2 && s[1] == "open":
		return "open"
	}
	return "rest"
}

// TestFamilyReadersAgree: what passes a door is the path that every reader finds, it is counted
// by its route, and is forwarded byte for byte; every door says the same.
func TestFamilyReadersAgree(t *testing.T) {
	rounds := 5_000
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 5_000_000
	}
	d := openDoors(t, identity.Route{Name: "health", Path: "/health"}, identity.Route{Name: "graphql", Path: "/graphql/*"},
		identity.Route{Name: "static", Path: "/static/*"}, identity.Route{Name: "admin", Path: "/admin/*"},
		identity.Route{Name: "open", Path: "/{x}/open"}, identity.Route{Name: "rest"})
	words := []string{"health", "graphql", "static", "admin", "open", "x", "%7Eu"}
	r := rand.New(rand.NewPCG(1, 2))
	passed := map[string]int{}
	for range rounds {
		target := targets.Make(r, words)
		d.up.uri, d.counted.route = "", ""
		pass := d.pass["gateway"](target)
		counted := d.counted.route
		for door, passes := range d.pass {
			if d.counted.route = ""; passes(target) != pass || d.counted.route != counted {
				t.Fatalf("%q: passes the gateway: %t, %s: %t; counted by %q, %q", target, pass, door, !pass, counted, d.counted.route)
			}
		}
		if !pass {
			if counted != "" || d.up.uri != "" {
				t.Fatalf("%q is refused, counted by %q and forwarded as %q", target, counted, d.up.uri)
			}
			continue
		}
		for route := range strings.FieldsSeq(counted) {
			passed[route]++
		}
		path := targets.Path(target)
		if sent, _, _ := strings.Cut(d.up.uri, "?"); sent != path {
			t.Fatalf("%q went on as %q", target, d.up.uri)
		}
		for _, reader := range targets.Readers {
			if route := routeOf(reader.Read(path)); !slices.Contains(strings.Fields(counted), route) {
				t.Fatalf("%q is counted by %s, and is of route %s to %s", target, counted, route, reader.Name)
			}
		}
	}
	for _, route := range []string{"health", "graphql", "static", "admin", "open", "rest"} {
		if passed[route] < rounds/500 {
			t.Errorf("only %d targets of route %s passed: %v", passed[route], route, passed)
		}
	}
}

// TestOddEscapesAreCounted: a router that decodes less of a path finds another route, which is
// counted too, at every door, also where the decoded path has a route that is unlimited.
func TestOddEscapesAreCounted(t *testing.T) {
	d := openDoors(t, identity.Route{Name: "static", Path: "/static/*", Unlimited: true}, identity.Route{Name: "bare", Path: "/a[b]", Unlimited: true},
		identity.Route{Name: "café", Path: "/café", Unlimited: true}, identity.Route{Name: "plus", Path: "/c++/x"}, identity.Route{Name: "brackets", Path: "/d()/*"}, identity.Route{Name: "open", Path: "/{x}/open"}, identity.Route{Name: "rest"})
	for target, want := range map[string]string{
		"/static/open": "", "/static/%6f": "", "/static/%7Eu/a[0]|b": "", "/a[b]": "", "/caf%C3%A9": "", "/x/open": "open", "/%7Eu": "rest", "/caf%c3%a8": "rest",
		"/stati%63/open": "open", "/%73tatic/%6fpen": "rest", "/static/%6fpen": "", "/stati%63/x": "rest", "/%73%74atic/open/": "open",
		"/a%5Bb%5D": "rest", "/a%5bb]": "rest", "/caf%c3%a9": "rest", "/caf%C3%a9/": "rest",
		"/c++/x": "plus", "/c%2b+/x": "plus rest", "/c%2B%2B/open": "open", "/d%28%29/open": "brackets open", "/d()/open": "brackets",
	} {
		for door, passes := range d.pass {
			if d.counted.route = ""; !passes(target) || d.counted.route != want {
				t.Errorf("%s: %q is counted by %q, not %q", door, target, d.counted.route, want)
			}
		}
	}
}

// TestFamilyCaseIsIgnoredAsRoutersDo: where case is ignored, a path is counted by the route of who
// ignores that of ASCII letters, and of who ignores that of all, as Fastify and Spring do, to
// whom the sign of the kelvin is a k.
func TestFamilyCaseIsIgnoredAsRoutersDo(t *testing.T) {
	routes := []identity.Route{{Name: "health", Path: "/Health"}, {Name: "graphql", Path: "/graphql/*"}, {Name: "static", Path: "/static/*"}, {Name: "admin", Path: "/admin/*"},
		{Name: "café", Path: "/café/*"}, {Name: "token", Path: "/token/*"}, {Name: "open", Path: "/{x}/open"}, {Name: "rest"}}
	d := openDoorsWith(t, identity.PathOptions{IgnoreCase: true}, routes)
	words := []string{"heaLth", "GRAPHQL", "static", "STATIC", "adm%C4%B0n", "ADMIN", "Open", "caf%C3%89", "caf%c3%89", "Caf%c3%a9", "to%E2%84%AAen", "to%e2%84%aaen", "tok%65n", "%C5%BFtatic", "x", "\u00c9", "%2b"}
	lower := func(s []string, to func(rune) rune) []string {
		for i := range s {
			s[i] = strings.Map(to, s[i])
		}
		return s
	}
	ascii := func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r |= 0x20
		}
		return r
	}
	route := func(s []string) string {
		if len(s) > 0 && (s[0] == "café" || s[0] == "token") {
			return s[0]
		}
		return routeOf(s)
	}
	r, kelvins := rand.New(rand.NewPCG(3, 4)), 0
	for range 20_000 {
		target := targets.Make(r, words)
		if d.counted.route = ""; !d.pass["gateway"](target) {
			continue
		}
		counted := strings.Fields(d.counted.route)
		for _, reader := range targets.Readers {
			to := []func(rune) rune{ascii}
			if strings.Contains(reader.Name, "decoded") || strings.Contains(reader.Name, "Fastify") { // before it looks at case
				to = append(to, unicode.ToLower)
			}
			for _, to := range to {
				if route := route(lower(reader.Read(targets.Path(target)), to)); !slices.Contains(counted, route) {
					t.Fatalf("%q is counted by %s, and is of route %s to %s", target, counted, route, reader.Name)
				}
			}
		}
		if len(counted) > 1 && slices.Contains(counted, "token") {
			kelvins++
		}
	}
	if kelvins < 20 {
		t.Errorf("%d paths are of two routes: that tries little", kelvins)
	}
	for door, passes := range d.pass {
		if d.counted.route = ""; !passes("/to%E2%84%AAen") || d.counted.route != "token rest" {
			t.Errorf("%s: counted by %q", door, d.counted.route)
		}
	}
}

// TestSlashAtTheEnd: a limited route counts its requests with and without a slash at the end,
// at every door, however it is written itself: servers differ in whether the two are one.
func TestSlashAtTheEnd(t *testing.T) {
	d := openDoors(t, identity.Route{Name: "login", Path: "/login"}, identity.Route{Name: "form", Path: "/form/"}, identity.Route{Name: "user", Path: "/users/{id}"},
		identity.Route{Name: "below", Path: "/below/*"}, identity.Route{Name: "rest", Unlimited: true})
	for want, list := range map[string][]string{"login": {"/login", "/login/", "/login/?x"}, "form": {"/form", "/form/"}, "user": {"/users/7", "/users/7/"},
		"below": {"/below", "/below/", "/below/x/"}, "": {"/users/", "/logins", "/login/x/", "/"}} {
		for _, target := range list {
			for door, passes := range d.pass {
				if d.counted.route = ""; !passes(target) || d.counted.route != want || door == "gateway" && d.up.uri != target {
					t.Errorf("%s: %q is counted by %q, not %q, and goes on as %q", door, target, d.counted.route, want, d.up.uri)
				}
			}
		}
	}
}

// TestPathsAreRefused: exactly these, at every door, unless the route allows them, or, where
// a rule reads the path, the configuration.
func TestPathsAreRefused(t *testing.T) {
	routes := []identity.Route{{Name: "backslash", Path: "/b/*", Allow: []string{"backslash"}}, {Name: "parameters", Path: "/p/*", Allow: []string{"parameters"}},
		{Name: "encoded_slash", Path: "/s/*", Allow: []string{"encoded_slash"}}, {Name: "empty_segments", Path: "/e/*", Allow: []string{"empty_segments"}}, {Name: "all", Path: "/all/*", Allow: []string{"backslash", "parameters", "encoded_slash", "empty_segments"}}, {Name: "none"}}
	d, byPath := openDoors(t, routes...), map[string]*doors{}
	for _, r := range routes {
		byPath[r.Path] = openDoorsByPath(t, r.Allow...)
	}
	f := func(route string, list ...string) {
		t.Helper()
		for _, target := range list {
			for door, passes := range d.pass {
				d.counted.route = ""
				if pass := passes(target); pass != (route != "") || d.counted.route != route {
					t.Errorf("%s: %q passes: %t, counted by %q, not %q", door, target, pass, d.counted.route, route)
				}
			}
			// The last route, of an empty path, is every other's.
			at := slices.IndexFunc(routes, func(r identity.Route) bool { return strings.HasPrefix(target, strings.TrimSuffix(r.Path, "*")) })
			d := byPath[routes[at].Path]
			for door, passes := range d.pass {
				d.counted.route = ""
				if pass := passes(target); pass != (route != "") || pass != (d.counted.route != "") {
					t.Errorf("%s, by path: %q passes: %t, counted by %q", door, target, pass, d.counted.route)
				}
			}
		}
	}
	f("none", "/", "/login", "/login/", "/%7Eu", "/caf%c3%a9", "/a[0]", "/a|b", "/{x}", "/^", "/`", "/...", "/.well-known/x", "/a/..b", "/a../b", "/.a", "/%252e%252e/x", "/%252f", "/%3bx", "/a:b@c!$&'()*+,=",
		"/a?x=/../y//;\\%2f", "http://h/a", "http://h", "http://h?x//", "/a/b/?", "/%2541", "/bb", "/x/b/%20")
	for _, dots := range []string{".", "..", "%2e", "%2E%2e", ".%2e", "..;", "..;x=1", ".;", "%2e%2e;x", "..%3b", "..%3Bx", `..\x`, "..%5c", "..%2f", "x%2f..", `x\..`, "x%5c.", "x%2f%2e%2E%2fy", "..%2f..", "a;b%2f.."} {
		for _, root := range []string{"/", "/a/", "/all/", "/all/x/"} {
			f("", root+dots, root+dots+"/x")
		}
	}
	for _, root := range []string{"//", "///", `/\`, `/\/`, "http://h//", `http://h/\`} {
		f("", root, root+"all/x", root+"h/all/x")
	}
	for word, targets := range map[string][]string{"backslash": {`x\y`, "x%5cy", "x%5C", `x\`}, "parameters": {"x;y", "x;y=1/z", ";y", "x/;", "x;y?z"},
		"encoded_slash": {"x%2fy", "x%2F", "%2fx"}, "empty_segments": {"/x", "x//y", "x//", "/", "x///y"}} {
		for _, target := range targets {
			for _, r := range routes[:4] {
				want := ""
				if r.Name == word && target != ";y" && target != "x/;" {
					want = word
				}
				if target == ";y" || target == "x/;" {
					continue
				}
				f(want, strings.TrimSuffix(r.Path, "*")+target)
			}
			f("", "/x/"+target)
			f("all", "/all/"+target)
		}
	}
	// Two slashes to who cuts parameters.
	f("", "/p/;y/z")
	f("parameters", "/p/;y")
	// A route allows for its own requests alone, and what it allows hides no other.
	f("", "/p%2fx", `/b\x`, "/x/p;/y", "/s%2f..%2fall")
}
