//go:build !race

// sync.Pool drops at random under the race detector.

package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

func TestAddressDoesNotAllocate(t *testing.T) {
	for _, h := range []struct{ name, value string }{
		{"X-Forwarded-For", "198.51.100.1, 203.0.113.7, 10.0.0.2"},
		{"X-Forwarded-For", "2001:db8::1"},
		{"Forwarded", `for="[2001:db8::1]:4711";proto=https, for=10.0.0.2`},
		{"X-Real-Ip", "203.0.113.7"},
		{"", ""},
	} {
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: h.name}})
		p, err := r.Plan([]identity.Descriptor{
			{Entries: []identity.EntryFrom{{From: "remote_address"}, {From: "method"}, {From: "path"}, {From: "host"}}},
			{Entries: []identity.EntryFrom{{From: "remote_address/48"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		hr := read(t, "10.0.0.1:4711", "GET /api/v1/users/42?x=y HTTP/1.1\nHost: api.example.com\n"+strings.TrimSuffix(h.name+": "+h.value, ": "))
		var req weir.Request
		if n := testing.AllocsPerRun(200, func() {
			c := r.Acquire()
			c.SetHTTP(hr)
			req.Reset()
			if err := p.Fill(&req, c); err != nil {
				t.Fatal(err)
			}
			c.Release()
		}); n != 0 {
			t.Errorf("%s: %s: %v allocations", h.name, h.value, n)
		}
	}
}

func TestCanonicalDoesNotAllocate(t *testing.T) {
	for _, path := range []string{"/", "/api/v1/users/42", "/static/app-1.2.3.min.js", "/a..b/.well-known/x"} {
		if n := testing.AllocsPerRun(100, func() {
			if p, err := identity.Canonical(path, identity.PathOptions{}); p != path || err != nil {
				t.Fatal(p, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
	// What is not canonical is written into memory that is used again.
	r := identitytest.New(t, identity.Options{})
	u, err := url.ParseRequestURI("/a%62/b%20c")
	if err != nil {
		t.Fatal(err)
	}
	hr := &http.Request{Method: "head", Host: "Example.com", URL: u, RemoteAddr: "192.0.2.1:1"}
	if n := testing.AllocsPerRun(100, func() {
		c := r.Acquire()
		c.SetHTTP(hr)
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}); n > 1 { // net/url's, to escape the space again
		t.Errorf("%v allocations", n)
	}
}

// TestVerifiedTokensAreRemembered: a signature is computed once, and a key is
// sealed in place.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}}, User: []string{"jwt:sub"},
		Token: identitytest.Tokens(t, credentials.JWTOptions{KeyFile: identitytest.Write(t, "keys.pem", string(identitytest.PublicPEM(identitytest.ECKey().Public()))), Now: identitytest.Fixed}),
	})
	f := identitytest.WithKey("some-key-of-a-common-length-0123456789")
	f.Header["Authorization"] = []string{"Bearer " + identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "", identitytest.Good)}
	for _, from := range []string{"user", "api_key", "client", "jwt:sub"} {
		p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: from}}}})
		if err != nil {
			t.Fatal(err)
		}
		noAllocations(t, r, p, f)
	}
}

// noAllocations fails if filling in the plan allocates once there is memory.
func noAllocations(t *testing.T, r *identity.Resolver, p *identity.Plan, f identity.Facts) {
	t.Helper()
	var req weir.Request
	if n := testing.AllocsPerRun(200, func() {
		c := r.Acquire()
		c.Set(f)
		req.Reset()
		if err := p.Fill(&req, c); err != nil || len(req.Descriptors) == 0 {
			t.Fatal(len(req.Descriptors), err)
		}
		c.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRulePlanDoesNotAllocate(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	p := r.RulePlan(lists{"": keyLists("path,remote_address", "method", "header:X-Api-Key", "remote_address")}, 0)
	noAllocations(t, r, p, identitytest.WithKey("k"))
}

// TestFoldDoesNotAllocate: names in ASCII are folded in memory that is used again.
func TestFoldDoesNotAllocate(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	rs := accountPlan(t, r, true)
	for _, path := range []string{"/login/victim", "/login/VicTim%20"} {
		var req weir.Request
		if n := testing.AllocsPerRun(200, func() {
			c := r.Acquire()
			c.Set(identity.Facts{Method: "POST", Path: path})
			req.Reset()
			if err := rs.Plan(rs.Find(c)).Fill(&req, c); err != nil {
				t.Fatal(err)
			}
			c.Release()
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// TestOneReadingDoesNotAllocate: what is there once costs no more than before.
func TestOneReadingDoesNotAllocate(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "query:user_id"}, {From: "cookie:user_id"}, {From: "header:X-User-Id"}}}})
	if err != nil {
		t.Fatal(err)
	}
	f := fields("Cookie", "a=b; user_id=1", "X-User-Id", "2", "Accept", "x", "User-Agent", "y")
	f.Query = "a=b&user_id=3"
	noAllocations(t, r, p, f)
}
