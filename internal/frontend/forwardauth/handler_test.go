package forwardauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/store/memory"
)

// seen limits each descriptor by itself and notes what it was asked.
type seen struct {
	*weir.Limit
	asked []string
}

func (s *seen) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		key := r.Domain + ":"
		for _, e := range d.Entries {
			key += " " + e.Key + "=" + e.Value
		}
		s.asked = append(s.asked, key)
		dst = s.Append(dst, key, max(d.Cost, r.Cost, 1), r)
	}
	return dst
}

// door is a handler in front of a limit, and the store behind it.
type door struct {
	t *testing.T
	*forwardauth.Handler
	store *clocked.Store
	rules *seen
}

// everything is a plan that shows all that is known of a request.
var everything = []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "remote_address"}, {From: "method"}, {From: "host"}, {From: "path"}}}}

// open returns a door with limit l; change may change how it is made.
func open(t *testing.T, l *weir.Limit, change ...func(*forwardauth.Options)) *door {
	t.Helper()
	who, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "X-Forwarded-For"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan(everything)
	if err != nil {
		t.Fatal(err)
	}
	l.Name = "some"
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, store: clocked.New(t), rules: &seen{Limit: l}}
	lim, err := weir.New(d.store, d.rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt := forwardauth.Options{Authorize: authorize.Options{Limiter: lim, Identity: who, Plan: plan}, ClientHeader: "X-Forwarded-For"}
	for _, c := range change {
		c(&opt)
	}
	if d.Handler, err = forwardauth.New(opt); err != nil {
		t.Fatal(err)
	}
	return d
}

func ten() *weir.Limit { return weir.PerHour(10, algorithm.FixedWindow) }

// ask sends a question from a peer, with header fields in pairs. The client is
// 203.0.113.7 unless they say otherwise.
func (d *door) ask(peer, method, target string, fields ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, "/", nil)
	r.RequestURI, r.RemoteAddr, r.Host = target, peer+":4711", "weir.internal"
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	for i := 0; i < len(fields); i += 2 {
		switch name := http.CanonicalHeaderKey(fields[i]); name {
		case "Host":
			r.Host = fields[i+1]
		case "X-Forwarded-For":
			r.Header[name] = []string{fields[i+1]}
		default:
			r.Header[name] = append(r.Header[name], fields[i+1])
		}
	}
	d.rules.asked = nil
	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, r)
	return rec
}

// detail is what the problem document in rec says.
func detail(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct {
		Status int
		Detail string
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || p.Status != rec.Code {
		t.Errorf("%d %s is no problem document: %v", rec.Code, rec.Body, err)
	}
	return p.Detail
}

// What each proxy sends is read as the request that its client sent.
func TestFormsOfProxies(t *testing.T) {
	d := open(t, weir.PerHour(1000, algorithm.FixedWindow))
	f := func(want, method, target string, fields ...string) {
		t.Helper()
		rec := d.ask("10.1.2.3", method, target, fields...)
		if got := strings.Join(d.rules.asked, "; "); rec.Code != 200 || rec.Body.Len() != 0 || got != want {
			t.Errorf("%d %s\nasked %s\nwant  %s", rec.Code, rec.Body, got, want)
		}
	}
	const post = "api: remote_address=203.0.113.7 method=POST host=shop.example path=/login"
	// Caddy, Traefik, HAProxy and nginx as in deploy/.
	f(post, "GET", "/auth", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login?next=%2f", "X-Forwarded-Host", "Shop.example:443", "X-Forwarded-Proto", "https")
	// Caddy keeps the client's query.
	f(post, "GET", "/auth?next=%2f", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login?next=%2f", "X-Forwarded-Host", "shop.example")
	// nginx as many have configured it.
	f(post, "GET", "/auth", "X-Original-Method", "POST", "X-Original-URI", "/login?next=%2f", "Host", "shop.example")
	// ingress-nginx.
	f(post, "GET", "/auth", "X-Original-Method", "POST", "X-Original-URL", "https://shop.example/login?next=1")
	f("api: remote_address=203.0.113.7 method=GET host=shop.example path=/", "GET", "/auth", "X-Original-Method", "GET", "X-Original-URL", "https://me@shop.example?q=/x")
	// Envoy: the question is the request. Header fields are the client's.
	f(post, "POST", "/auth/login?next=%2f", "Host", "shop.example")
	f(post, "POST", "/auth/login?fail=open", "Host", "shop.example", "X-Forwarded-Uri", "/harmless", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "evil.example")
	f("api: remote_address=203.0.113.7 method=GET host=shop.example path=/", "HEAD", "/auth/", "Host", "shop.example")
	f("api: remote_address=203.0.113.7 method=OPTIONS host=shop.example path=/*", "OPTIONS", "/auth*", "Host", "shop.example")
	f("api: remote_address=203.0.113.7 method=GET host=shop.example path=/auth", "GET", "http://weir/auth/auth", "Host", "shop.example")
	// The same path in other spellings, of which one is another to who does not decode it.
	for path, want := range map[string]string{"/login/": post, "/%6cogin": post + "; " + strings.Replace(post, "/login", "/%6cogin", 1)} {
		f(want, "GET", "/auth", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", path, "X-Forwarded-Host", "shop.example")
		f(want, "POST", "/auth"+path, "Host", "shop.example")
	}
	// Parameters.
	f(strings.Replace(post, "api", "shop", 1), "POST", "/auth:domain=shop/login", "Host", "shop.example")
	f(strings.Replace(post, "api", "a/b c", 1), "GET", "/auth:domain=a%2Fb+c&deny=403", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login", "X-Forwarded-Host", "shop.example")
	// Fields of two kinds, of which the proxy sets one.
	both := []string{"X-Original-URI", "/login", "X-Original-Method", "POST", "X-Forwarded-Uri", "/harmless", "X-Forwarded-Method", "GET", "Host", "shop.example"}
	f(post, "GET", "/auth:from=original", both...)
	f(strings.NewReplacer("POST", "GET", "/login", "/harmless").Replace(post), "GET", "/auth:from=forwarded", both...)
}

// A question that is not clear is not answered by a guess, and charges nothing.
func TestUnclearQuestions(t *testing.T) {
	d := open(t, ten(), func(o *forwardauth.Options) { o.Authorize.Has = func(domain string) bool { return domain == "api" } })
	f := func(want, target string, fields ...string) {
		t.Helper()
		rec := d.ask("10.1.2.3", "GET", target, fields...)
		if got := detail(t, rec); rec.Code != 400 || !strings.Contains(got, want) || len(d.rules.asked) != 0 {
			t.Errorf("%d %q asked %q, want 400 and %q", rec.Code, got, d.rules.asked, want)
		}
	}
	fwd := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login"}
	with := func(more ...string) []string { return append(append([]string{}, fwd...), more...) }
	f("the request of the client is unknown", "/auth")
	f("the request of the client is unknown", "/auth", "X-Forwarded-Method", "GET", "X_Forwarded_Uri", "/login")
	f("does not say the method", "/auth", "X-Forwarded-Uri", "/login")
	f("does not say the method", "/auth", "X-Original-URI", "/login", "X-Forwarded-Method", "GET")
	f("name different requests", "/auth", with("X-Original-URI", "/harmless", "X-Original-Method", "POST")...)
	f("name different requests", "/auth", with("X-Original-URI", "/login", "X-Original-Method", "GET")...)
	f("name different requests", "/auth", "X-Original-URI", "/login", "X-Original-URL", "https://h/other", "X-Original-Method", "GET")
	f("X-Forwarded-Uri is there on 2 lines", "/auth", with("X-Forwarded-Uri", "/harmless")...)
	f("X-Forwarded-Method is there on 2 lines", "/auth", with("X-Forwarded-Method", "GET")...)
	f("X-Forwarded-Host is there on 2 lines", "/auth", with("X-Forwarded-Host", "a", "X-Forwarded-Host", "b")...)
	f("neither a path nor a URL", "/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "login")
	f("neither a path nor a URL", "/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "ftp://h/login")
	f("parameters stand behind a colon", "/auth?deny=403", fwd...)
	f("the path holds a percent sign", "/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/%zz")
	f("the host is not a name", "/auth", with("X-Forwarded-Host", "a, b")...)
	f("the method is not a token", "/auth", "X-Forwarded-Method", "G T", "X-Forwarded-Uri", "/")
	// Parameters, at first sight.
	f(`unknown parameter "dney" (did you mean "deny"?)`, "/auth:dney=403", fwd...)
	f("is not a status", "/auth:deny=200", fwd...)
	f("is not a status", "/auth:deny=302", fwd...)
	f("is not a status", "/auth:deny=x", fwd...)
	f("neither open nor closed", "/auth:fail=maybe", fwd...)
	f("not a number of units", "/auth:cost=-1", fwd...)
	f("not a number of units", "/auth:cost=9007199254740993", fwd...)
	f("not a duration", "/auth:max_delay=2", fwd...)
	f("not a duration", "/auth:max_delay=2h", fwd...)
	f("X-Original-*", "/auth:from=both", fwd...)
	f("given twice", "/auth:deny=403&deny=401", fwd...)
	f("broken escape", "/auth:domain=%z", fwd...)
	f("1 to 255 bytes", "/auth:domain=", fwd...)
	f("at most 1024", "/auth:domain="+strings.Repeat("a", 2000), fwd...)
	f(`no rule has the domain "shpo"`, "/auth:domain=shpo", fwd...)
	f("header fields are not used", "/auth:from=original/login", fwd...)
	// The client.
	d.ask("10.1.2.3", "GET", "/auth", fwd...)
	r := httptest.NewRequest("GET", "/", nil)
	r.RequestURI, r.RemoteAddr = "/auth/login", "10.1.2.3:1"
	rec := httptest.NewRecorder()
	if d.ServeHTTP(rec, r); rec.Code != 400 || !strings.Contains(detail(t, rec), "must send X-Forwarded-For") {
		t.Errorf("without a client: %d %s", rec.Code, rec.Body)
	}
	if got := d.ask("10.1.2.3", "GET", "/elsewhere"); got.Code != 404 {
		t.Errorf("elsewhere: %d", got.Code)
	}
	for _, target := range []string{"/authx", "/aut", "", "/", "auth", "x://h/auth"} {
		if d.ServesTarget(target) {
			t.Errorf("serves %q", target)
		}
	}
}

// Who is not a trusted proxy is told so, whatever he says, and charges nothing.
func TestUntrustedPeers(t *testing.T) {
	d := open(t, ten())
	for _, peer := range []string{"203.0.113.9", "[2001:db8::1]", "192.0.2.1"} {
		for _, target := range []string{"/auth", "/auth/login", "/auth:fail=open/x"} {
			rec := d.ask(peer, "GET", target, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1", "X-Real-IP", "10.0.0.1")
			want := strings.Trim(peer, "[]") + " is not a trusted proxy"
			if got := detail(t, rec); rec.Code != 400 || !strings.Contains(got, want) || len(d.rules.asked) != 0 {
				t.Errorf("%s: %d %q", peer, rec.Code, got)
			}
		}
	}
	r := httptest.NewRequest("GET", "/auth/x", nil)
	r.RemoteAddr = "@"
	rec := httptest.NewRecorder()
	if d.ServeHTTP(rec, r); rec.Code != 400 || !strings.Contains(detail(t, rec), "Unix socket") {
		t.Errorf("Unix socket: %d %s", rec.Code, rec.Body)
	}
}

// Who the client is, a trusted proxy says: the client's own words before it
// count for nothing.
func TestSpoofedClients(t *testing.T) {
	d := open(t, weir.PerHour(1000, algorithm.FixedWindow))
	f := func(want, line string, more ...string) {
		t.Helper()
		d.ask("10.1.2.3", "GET", "/auth", append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", line}, more...)...)
		if len(d.rules.asked) != 1 || !strings.Contains(d.rules.asked[0], "remote_address="+want+" ") {
			t.Errorf("%s: asked %q, want %s", line, d.rules.asked, want)
		}
	}
	f("203.0.113.7", "203.0.113.7")
	f("203.0.113.7", "8.8.8.8, 203.0.113.7")
	f("203.0.113.7", "8.8.8.8, 203.0.113.7, 10.9.9.9")
	f("203.0.113.7", strings.Repeat("8.8.8.8, ", 5000)+"203.0.113.7")
	f("203.0.113.7", "203.0.113.7", "X-Real-IP", "8.8.8.8", "Forwarded", "for=8.8.8.8", "X_Forwarded_For", "8.8.8.8", "True-Client-IP", "8.8.8.8")
	f("2001:db8::/64", "2001:db8::1:2:3:4")
	f("10.1.2.3", "garbage")
}

// A refusal is what the client gets to see; an allowed request carries the same
// fields.
func TestAnswers(t *testing.T) {
	d := open(t, weir.PerHour(2, algorithm.FixedWindow))
	fwd := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login"}
	rec := d.ask("10.1.2.3", "GET", "/auth", fwd...)
	h := rec.Header()
	if rec.Code != 200 || rec.Body.Len() != 0 || h.Get("Ratelimit") != `"some";r=1;t=2800` || h.Get("Ratelimit-Policy") != `"some";q=2;w=3600` ||
		h.Get("X-Ratelimit-Remaining") != "1" || h.Get("Content-Length") != "0" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "" || h.Get("Location") != "" {
		t.Errorf("allowed: %d %v %s", rec.Code, h, rec.Body)
	}
	for _, target := range []string{"/auth:cost=0", "/auth"} { // a look spends nothing
		if rec := d.ask("10.1.2.3", "GET", target, fwd...); rec.Code != 200 {
			t.Errorf("%s: %d", target, rec.Code)
		}
	}
	for target, want := range map[string]int{"/auth": 429, "/auth:deny=403": 403, "/auth:deny=503": 503, "/auth:cost=0": 429} {
		rec := d.ask("10.1.2.3", "GET", target, fwd...)
		h := rec.Header()
		if rec.Code != want || h.Get("Retry-After") != "2800" || h.Get("Ratelimit") != `"some";r=0;t=2800` || h.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(detail(t, rec), "try again in 2800 seconds") {
			t.Errorf("%s: %d %v %s", target, rec.Code, h, rec.Body)
		}
	}
	// A cost that can never pass has no Retry-After.
	rec = d.ask("10.1.2.3", "GET", "/auth:cost=3", fwd...)
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "" {
		t.Errorf("too dear: %d %v", rec.Code, rec.Header())
	}
}

// Routes choose descriptors and costs as in the gateway; an unlimited one asks
// nobody.
func TestRoutes(t *testing.T) {
	d := open(t, ten(), func(o *forwardauth.Options) {
		o.Authorize.Routes = []identity.Route{
			{Path: "/health", Unlimited: true},
			{Path: "/login/{account}", Methods: []string{"POST"}, Cost: 4, Descriptors: []identity.Descriptor{
				{Entries: []identity.EntryFrom{{From: "remote_address"}}}, {Entries: []identity.EntryFrom{{From: "param:account"}}}}},
		}
	})
	f := func(code int, want, method, uri string, target string) {
		t.Helper()
		rec := d.ask("10.1.2.3", "GET", target, "X-Forwarded-Method", method, "X-Forwarded-Uri", uri)
		if got := strings.Join(d.rules.asked, "; "); rec.Code != code || got != want {
			t.Errorf("%s %s: %d asked %q, want %d %q", method, uri, rec.Code, got, code, want)
		}
	}
	for range 20 {
		f(200, "", "GET", "/health", "/auth")
		f(200, "", "GET", "/health/", "/auth")
	}
	const fry = "api: remote_address=203.0.113.7; api: param:account=fry"
	f(200, fry, "POST", "/login/fry", "/auth")
	f(200, fry+"; api: param:account=fr%79", "POST", "/login/fr%79/?x", "/auth")
	f(429, fry, "POST", "/login/fry", "/auth") // 12 of 10
	f(200, fry, "POST", "/login/fry", "/auth:cost=2")
	f(400, "", "POST", "/login/%zz", "/auth")
	f(200, "api: remote_address=203.0.113.7 method=GET host=weir.internal path=/login/fry", "GET", "/login/fry", "/auth")
	if _, err := forwardauth.New(forwardauth.Options{}); err == nil || !strings.Contains(err.Error(), "no proxy is trusted") {
		t.Errorf("without a resolver: %v", err)
	}
}

// When the store is gone, the proxy's configuration says what becomes of
// requests.
func TestStoreDown(t *testing.T) {
	d := open(t, ten())
	d.store.Fail = errors.New("store: gone, secret words")
	for target, want := range map[string]int{"/auth": 503, "/auth:fail=closed": 503, "/auth:fail=open": 200, "/auth:deny=403": 503} {
		rec := d.ask("10.1.2.3", "GET", target, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
		if rec.Code != want || strings.Contains(rec.Body.String(), "secret") || (want == 503) != (rec.Header().Get("Retry-After") == "1") {
			t.Errorf("%s: %d %v %s", target, rec.Code, rec.Header(), rec.Body)
		}
	}
}

// Limits that need to know how a request ends are not asked by guess: the
// request is not let through, whatever the proxy wants, and nothing is charged.
func TestLimitsThatNeedTheEnd(t *testing.T) {
	settled := ten()
	settled.Adjustment = &weir.Adjustment{}
	settled.Adjustment.CountOn.Add(401, 403)
	running := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute}
	for want, l := range map[string]*weir.Limit{"counts requests in flight": running, "is adjusted by the upstream response": settled} {
		d := open(t, l)
		for range 12 { // more than either takes
			rec := d.ask("10.1.2.3", "GET", "/auth:fail=open", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
			if got := detail(t, rec); rec.Code != 500 || !strings.Contains(got, want) || !strings.Contains(got, "the gateway or the middleware") {
				t.Errorf("%d %s", rec.Code, got)
			}
		}
		if l == settled {
			left, err := d.store.TakeOne(t.Context(), d.rules.asked[0], l, 0)
			if err != nil || left.Remaining != 10 {
				t.Errorf("%d of 10 are left, %v", left.Remaining, err)
			}
		}
	}
}

// A limit that delays holds the answer back for as long as the proxy says that
// it waits. Who would wait longer is refused and leaves the queue.
func TestDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		who, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
		if err != nil {
			t.Fatal(err)
		}
		l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 10}
		store := memory.New(memory.Options{Now: func() int64 { return time.Now().UnixMicro() }})
		defer store.Close()
		lim, err := weir.New(store, weir.Limits{l}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := forwardauth.New(forwardauth.Options{Authorize: authorize.Options{Limiter: lim, Identity: who}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(target string) (int, time.Duration, string) {
			r := httptest.NewRequest("GET", target, nil)
			r.RemoteAddr = "10.0.0.1:1"
			rec, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(rec, r)
			return rec.Code, time.Since(began), rec.Header().Get("Retry-After")
		}
		f := func(target string, code int, waited time.Duration, retry string) {
			t.Helper()
			if c, w, ra := ask(target); c != code || w != waited || ra != retry {
				t.Errorf("%s: %d after %s, Retry-After %q; want %d after %s, %q", target, c, w, ra, code, waited, retry)
			}
		}
		f("/auth/x", 200, 0, "")
		f("/auth/x", 429, 0, "1")
		f("/auth:max_delay=500ms/x", 429, 0, "1")
		f("/auth:max_delay=2s/x", 200, time.Second, "") // those refused left the queue
	})
}

// The body of a question is not read, and does not cost the connection more than
// net/http allows it to.
func TestBodiesAreIgnored(t *testing.T) {
	d := open(t, weir.PerHour(1000, algorithm.FixedWindow))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "10.0.0.1:1"
		d.ServeHTTP(w, r)
	}))
	defer srv.Close()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY"} {
		for _, body := range []string{"", "small", strings.Repeat("x", 1<<20)} {
			req, err := http.NewRequest(method, srv.URL+"/auth/some/path?q", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Forwarded-For", "203.0.113.7")
			res, err := srv.Client().Do(req)
			if err != nil {
				t.Errorf("%s with %d bytes: %v", method, len(body), err)
				continue
			}
			got, err := io.ReadAll(res.Body)
			if res.Body.Close(); res.StatusCode != 200 || len(got) != 0 || err != nil {
				t.Errorf("%s with %d bytes: %d %q %v", method, len(body), res.StatusCode, got, err)
			}
		}
	}
}

// A soft limit lets through what is above its threshold.
func TestSoft(t *testing.T) {
	l := weir.PerHour(2, algorithm.FixedWindow)
	l.Excess = 50
	d := open(t, l)
	codes := ""
	for range 4 {
		codes += fmt.Sprint(d.ask("10.1.2.3", "GET", "/auth/x").Code, " ")
	}
	if codes != "200 200 200 429 " {
		t.Errorf("got %s", codes)
	}
}
