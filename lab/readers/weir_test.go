package readers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// counted is what a request was counted by. It limits nothing.
type counted struct {
	routes, users, accounts []string
}

// Match implements weir.Rules.
func (c *counted) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for _, d := range r.Descriptors {
		for _, e := range d.Entries {
			v := strings.Clone(e.Value)
			switch e.Key {
			case "route":
				c.routes = append(c.routes, v)
			case "user":
				c.users = append(c.users, v)
			case "account":
				c.accounts = append(c.accounts, v)
			}
		}
	}
	return dst
}

// doors are the ways into Weir that say whether another server gets a request.
type doors struct {
	t       testing.TB
	counted counted
	sent    string // the target that the gateway sent on
	limits  httplimit.Options
	routes  []gateway.Route
	gateway http.Handler
	forward http.Handler
	ext     *extauthz.Service
}

// RoundTrip implements http.RoundTripper: the upstream of the gateway.
func (d *doors) RoundTrip(r *http.Request) (*http.Response, error) {
	d.sent = r.URL.RequestURI()
	return &http.Response{StatusCode: 204, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func openDoors(t testing.TB) *doors {
	t.Helper()
	d := &doors{t: t}
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	t.Cleanup(func() { store.Close() })
	limiter, err := weir.New(store, &d.counted, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	who := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("127.0.0.1/32")}},
		APIKey:  identity.APIKeyOptions{From: []string{"header:X-Api-Key", "query:api_key", "cookie:api_key"}}, User: []string{"api_key"},
		Keys: identitytest.Keys(t, "keys.yaml", "- {sha256: "+identitytest.Digest(aliceKey)+", user: alice}\n- {sha256: "+identitytest.Digest(bobKey)+", user: bob}\n"),
	})
	opt := authorize.Options{Limiter: limiter, Identity: who}
	for _, r := range []identity.Route{{Name: "health", Path: "/health"}, {Name: "graphql", Path: "/graphql/*"}, {Name: "static", Path: "/static/*"},
		{Name: "admin", Path: "/admin/*"}, {Name: "open", Path: "/{x}/open"}, {Name: "rest"}} {
		ip := identity.EntryFrom{Key: "ip", From: "remote_address"}
		r.Descriptors = []identity.Descriptor{
			{Entries: []identity.EntryFrom{{Key: "route", From: "route"}, ip}},
			{Entries: []identity.EntryFrom{{Key: "user", From: "user"}}},
			{Entries: []identity.EntryFrom{{Key: "account", From: "query:account"}, ip}},
			{Entries: []identity.EntryFrom{{Key: "account", From: "cookie:account"}, ip}},
		}
		opt.Routes = append(opt.Routes, r)
		d.routes = append(d.routes, gateway.Route{Route: r})
	}
	d.limits = httplimit.Options{Limiter: limiter, Identity: who}
	d.gateway = d.gatewayTo(&url.URL{Scheme: "http", Host: "upstream.example"}, d)
	if d.forward, err = forwardauth.New(forwardauth.Options{Authorize: opt}); err != nil {
		t.Fatal(err)
	}
	if d.ext, err = extauthz.New(extauthz.Options{Authorize: opt}); err != nil {
		t.Fatal(err)
	}
	return d
}

// gatewayTo is the gateway before an upstream.
func (d *doors) gatewayTo(upstream *url.URL, by http.RoundTripper) http.Handler {
	d.t.Helper()
	g, err := gateway.New(gateway.Options{Limits: d.limits, Routes: d.routes, Default: gateway.Forward{Transport: by, Upstream: upstream}})
	if err != nil {
		d.t.Fatal(err)
	}
	return g
}

// ask asks every door, which say the same, and returns what the request was counted by.
func (d *doors) ask(r request) (c counted, passes bool) {
	d.t.Helper()
	in, err := r.parse()
	if err != nil {
		return counted{}, false
	}
	target := in.RequestURI
	d.counted, d.sent = counted{}, ""
	passes = d.serve(d.gateway, in)
	c = d.counted
	if passes && withoutHost(d.sent) != withoutHost(target) {
		d.t.Fatalf("%q: the target goes on as %q", r.head(), d.sent)
	}
	if !passes && c.routes != nil {
		d.t.Fatalf("%q is refused and counted", r.head())
	}

	asked := &http.Request{Method: "GET", URL: &url.URL{Path: "/auth"}, Host: "h.example", Header: in.Header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	asked.Header["X-Forwarded-Method"], asked.Header["X-Forwarded-Uri"] = []string{"GET"}, []string{target}
	d.same(r, "forward-auth", c, passes, func() bool { return d.serve(d.forward, asked) })

	if len(in.Header["Cookie"]) > 1 {
		return c, passes // Envoy makes one line of them before it asks, and forwards that
	}
	fields := map[string]string{}
	for name, lines := range in.Header {
		fields[strings.ToLower(name)] = strings.Join(lines, ",")
	}
	d.same(r, "ext_authz", c, passes, func() bool {
		a, err := d.ext.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7"}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h.example", Path: withoutHost(target), Headers: fields}}}})
		if err != nil {
			d.t.Fatal(err)
		}
		return a.GetOkResponse() != nil
	})
	return c, passes
}

// same fails if another door lets through what the gateway refuses, or counts it by
// anything else. It may refuse more: of two lines it may see one.
func (d *doors) same(r request, door string, c counted, passes bool, ask func() bool) {
	d.t.Helper()
	d.counted = counted{}
	switch pass := ask(); {
	case pass && !passes:
		d.t.Fatalf("%q passes %s, and not the gateway", r.head(), door)
	case pass && !reflect.DeepEqual(d.counted, c):
		d.t.Fatalf("%q is counted by %+v at %s, by %+v at the gateway", r.head(), d.counted, door, c)
	}
}

func (d *doors) serve(h http.Handler, r *http.Request) bool {
	r.RemoteAddr = "192.0.2.1:1"
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code >= 300 && rec.Code != 400 && rec.Code != 404 {
		d.t.Fatalf("%s %s is answered %d", r.Method, r.RequestURI, rec.Code)
	}
	return rec.Code < 300
}

// withoutHost cuts scheme and host off a target.
func withoutHost(target string) string {
	if _, rest, ok := strings.Cut(target, "://"); ok && target[0] != '/' {
		if i := strings.IndexAny(rest, "/?"); i >= 0 && rest[i] == '/' {
			return rest[i:]
		} else if i >= 0 {
			return "/" + rest[i:]
		}
		return "/"
	}
	return target
}
