package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// perKey limits each descriptor by itself: 10 an hour of each.
type perKey struct{ *weir.Limit }

func (p perKey) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		key := ""
		for _, e := range d.Entries {
			key += e.Key + "=" + e.Value + ";"
		}
		cost := d.Cost
		if cost == 0 {
			cost = max(r.Cost, 1)
		}
		dst = p.Append(dst, key, cost, r)
	}
	return dst
}

func ten(t *testing.T) perKey {
	t.Helper()
	l := weir.PerHour(10, algorithm.FixedWindow)
	l.Name = "ten"
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return perKey{l}
}

// naming is an upstream that tells its name and what it was asked.
func naming(t *testing.T, name string) *url.URL {
	t.Helper()
	srv := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the gateway has given up
		}
		fmt.Fprintf(w, "%s %s %s %d", name, r.Method, r.RequestURI, n)
	}), false)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func from(sources ...string) []identity.Descriptor {
	var ds []identity.Descriptor
	for _, s := range sources {
		var d identity.Descriptor
		for one := range strings.SplitSeq(s, "+") {
			d.Entries = append(d.Entries, identity.EntryFrom{From: one})
		}
		ds = append(ds, d)
	}
	return ds
}

// routed starts a gateway with routes for TestRoutes.
func routed(t *testing.T) *httptest.Server {
	t.Helper()
	app, users, static := naming(t, "app"), naming(t, "users"), naming(t, "static")
	users.Path = "/v2"
	lim, err := weir.New(clocked.New(t), ten(t), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: lim},
		Default: gateway.Forward{Upstream: app, MaxBody: 100},
		Routes: []gateway.Route{
			{Route: identity.Route{Path: "/login", Methods: []string{"POST"}, Descriptors: from("value:login+remote_address"), Cost: 5}},
			{Route: identity.Route{Path: "/api/users/{id}", Descriptors: from("param:id")}, Forward: gateway.Forward{Upstream: users, StripPrefix: "/api"}},
			{Route: identity.Route{Path: "/api/*", Descriptors: from("value:api+remote_address")}, Forward: gateway.Forward{StripPrefix: "/api", MaxBody: 10, MaxHeader: 200}},
			{Route: identity.Route{Path: "/static/*", Unlimited: true}, Forward: gateway.Forward{Upstream: static}},
			{Route: identity.Route{Host: "*.admin.example", Descriptors: from("host")}, Forward: gateway.Forward{PreserveHost: true}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, g, false)
}

func TestRoutes(t *testing.T) {
	srv := routed(t)
	ask := func(method, path, body string, h http.Header) (int, string, http.Header) {
		t.Helper()
		var r io.Reader
		if body != "" {
			r = io.MultiReader(strings.NewReader(body)) // of unknown length
			if h.Get("X-Known") != "" {
				r = strings.NewReader(body)
			}
		}
		req, err := http.NewRequest(method, srv.URL+path, r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h
		if host := h.Get("Host"); host != "" {
			req.Host = host
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b), res.Header
	}
	f := func(method, path, want, left string) {
		t.Helper()
		code, body, h := ask(method, path, "", nil)
		if code != 200 || body != want || h.Get("X-RateLimit-Remaining") != left {
			t.Errorf("%s %s: got %d %q, %s left; want %q, %s left", method, path, code, body, h.Get("X-RateLimit-Remaining"), want, left)
		}
	}
	// Its own upstream, descriptor and cost, however the path is written.
	f("POST", "/login", "app POST /login 0", "5")
	f("POST", "/%6Cogin/", "app POST /%6Cogin/ 0", "0")
	if code, _, _ := ask("POST", "/log%69n", "", nil); code != 429 {
		t.Errorf("the third login by another spelling got %d", code)
	}
	// A router that does not decode finds no login: that is counted too.
	f("GET", "/login", "app GET /login 0", "8")
	f("GET", "/other?a=b", "app GET /other?a=b 0", "7")
	// The client's prefix is cut, the upstream's put in its place.
	f("GET", "/api/users/7?x", "users GET /v2/users/7?x 0", "9")
	f("GET", "/api/users/8", "users GET /v2/users/8 0", "9")
	f("GET", "/api/%75sers/7/", "users GET /v2/%75sers/7/ 0", "8")
	f("GET", "/%61pi/users/7", "users GET /v2/users/7 0", "6") // of what has no route
	// Nobody climbs out of it.
	for _, path := range []string{"/api/x/../users/7", "/api/x/%2e%2e/users/7", "/../api/users/7", "/api//users/7"} {
		if code, body, _ := ask("GET", path, "", nil); code != 400 {
			t.Errorf("%s: got %d %q", path, code, body)
		}
	}
	f("GET", "/api", "app GET / 0", "8") // as /api/%75sers/7/ was counted
	f("GET", "/api/a/b/", "app GET /a/b/ 0", "7")
	f("GET", "/apix", "app GET /apix 0", "5")
	for range 12 {
		f("GET", "/static/%61.css", "static GET /static/%61.css 0", "")
	}
	code, body, _ := ask("GET", "/a", "", http.Header{"Host": {"x.admin.example:80"}})
	if code != 200 || body != "app GET /a 0" {
		t.Errorf("by host: got %d %q", code, body)
	}

	// A path that cannot be read has no route, so it goes nowhere.
	if code, body, _ := ask("GET", "/%00", "", nil); code != 400 || !strings.Contains(body, "control character") {
		t.Errorf("a control character: got %d %s", code, body)
	}

	// What is too large is refused, whether its length is known or not, and not
	// charged for that when it is.
	big := strings.Repeat("x", 11)
	left := func() string {
		t.Helper()
		_, _, h := ask("GET", "/api/", "", nil)
		return h.Get("X-RateLimit-Remaining")
	}
	if got := left(); got != "6" {
		t.Errorf("%s left", got)
	}
	code, body, h := ask("POST", "/api/up", big, http.Header{"X-Known": {"1"}})
	if code != 413 || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "larger than 10 bytes") {
		t.Errorf("a large body: got %d %s", code, body)
	}
	code, body, h = ask("GET", "/api/up", "", http.Header{"X-A": {strings.Repeat("x", 100), strings.Repeat("x", 100)}})
	if code != 431 || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "larger than 200 bytes") {
		t.Errorf("large fields: got %d %s", code, body)
	}
	if got := left(); got != "5" {
		t.Errorf("%s left: refusals for size were charged", got)
	}
	if code, body, _ := ask("POST", "/api/up", big, nil); code != 413 || !strings.Contains(body, "larger than 10 bytes") {
		t.Errorf("a large body of unknown length: got %d %s", code, body)
	}
	if code, body, _ := ask("POST", "/api/up", big[1:], nil); code != 200 || body != "app POST /up 10" {
		t.Errorf("a body of the largest size: got %d %s", code, body)
	}
}

// TestNobodyClimbs out of the path of an upstream.
func TestNobodyClimbs(t *testing.T) {
	lines := make(chan string, 1)
	up := rawUpstream(t, lines)
	up.Path = "/public/"
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: up}})
	f := func(target, want string) {
		t.Helper()
		code := rawGet(t, srv.Listener.Addr().String(), target)
		if want == "" {
			if code != 400 {
				t.Errorf("%s: got %d, want 400", target, code)
			}
			return
		}
		if got := <-lines; code != 200 || got != "GET /public"+want+" HTTP/1.1" {
			t.Errorf("%s: got %d, the upstream saw %q, want %s", target, code, got, want)
		}
	}
	f("/a/b/", "/a/b/")
	f("/", "/")
	for _, climbing := range []string{"/../admin", "/a/%2E%2e/../admin", "/..%2f../admin", "/..;/admin", `/..\admin`, "//../admin"} {
		f(climbing, "")
	}
	f("/a..b", "/a..b")
	f("/%00", "")
}

// TestNoDefault: what no route matches is not there.
func TestNoDefault(t *testing.T) {
	lim, err := weir.New(clocked.New(t), ten(t), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{
		Limits: httplimit.Options{Limiter: lim},
		Routes: []gateway.Route{{Route: identity.Route{Path: "/a"}, Forward: gateway.Forward{Upstream: naming(t, "a")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := start(t, g, false)
	if res, body := get(t, srv.URL+"/a"); res.StatusCode != 200 || body != "a GET /a 0" {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	res, body := get(t, srv.URL+"/b")
	problemOf(t, res, body, 404)
}

// TestRouteTimeouts: each route has its own, and the whole time does not end a
// WebSocket.
func TestRouteTimeouts(t *testing.T) {
	ended := make(chan error, 1)
	talk := chat(t, ended)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/talk":
			talk(w, r)
		case "/half":
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
			fallthrough
		default:
			<-r.Context().Done()
		}
	}), false)
	upstream, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(clocked.New(t), weir.Limits{concurrency(1)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const short = 50 * time.Millisecond
	g, err := gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: lim},
		Default: gateway.Forward{Upstream: upstream, Timeout: short},
		Routes: []gateway.Route{
			{Route: identity.Route{Path: "/header"}, Forward: gateway.Forward{HeaderTimeout: short, Timeout: longest}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := start(t, g, false)
	for _, path := range []string{"/header", "/whole"} {
		res, body := get(t, srv.URL+path)
		problemOf(t, res, body, 504)
	}
	// An answer that has begun cannot become another: it is broken off.
	until(t, func() bool {
		res, err := http.Get(srv.URL + "/half")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 200 { // the slot of the one before, or a busy machine
			return false
		}
		if b, err := io.ReadAll(res.Body); err == nil || string(b) != "half" {
			t.Errorf("got %q, %v: a part was passed off as the whole", b, err)
		}
		return true
	})
	var ws *websocket
	until(t, func() bool { ws, _ = dialWebSocket(t, srv, "/talk"); return ws != nil })
	time.AfterFunc(3*short, func() {
		if err := ws.write(wsClose, ""); err != nil {
			t.Error(err)
		}
	})
	for op := byte(0); op != wsClose; {
		if op, _, err = ws.read(); err != nil {
			t.Fatalf("the WebSocket ended: %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the upstream saw %v", err)
	}
}

// TestStrangersWithoutLimit: a route that limits nobody but who asks for it is
// told at the start.
func TestStrangersWithoutLimit(t *testing.T) {
	lim, err := weir.New(clocked.New(t), ten(t), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	by := func(path, from string) gateway.Route {
		return gateway.Route{Route: identity.Route{Path: path, Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: from}}}}}}
	}
	free := by("/free", "cookie:sid")
	free.Unlimited = true
	var log strings.Builder
	_, err = gateway.New(gateway.Options{
		Limits: httplimit.Options{Limiter: lim}, Default: gateway.Forward{Upstream: naming(t, "up")},
		Routes: []gateway.Route{by("/address", "remote_address"), by("/session", "cookie:sid"), free, {Route: identity.Route{Path: "/*"}}},
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "route=2") || !strings.Contains(got, "path=/session") {
		t.Errorf("got %s, want one warning, of the second route", got)
	}
}
