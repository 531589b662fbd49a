package identity_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

func TestFill(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"},
		User:    []string{"header:X-User"}, Tier: []string{"header:X-Tier"},
	})
	f := func(want, peer, request string, ds ...identity.Descriptor) {
		t.Helper()
		p, err := r.Plan(ds)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Acquire()
		defer c.Release()
		c.SetHTTP(read(t, peer, request))
		var req weir.Request
		if err := p.Fill(&req, c); err != nil {
			t.Fatal(err)
		}
		if got := show(&req); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	d := func(from ...string) identity.Descriptor {
		var d identity.Descriptor
		for _, s := range from {
			d.Entries = append(d.Entries, identity.EntryFrom{From: s})
		}
		return d
	}
	const plain = "GET /%61/b/?x=1&y=%20z HTTP/1.1\nHost: Example.com:80\nCookie: a=1; sid=s\nX-Forwarded-For: 203.0.113.7, 10.0.0.2\nX-User: u1"
	f("remote_address=192.0.2.1", "192.0.2.1:99", plain)
	f("remote_address=203.0.113.7", "10.0.0.1:99", plain)
	f("remote_address=2001:db8:1:2::/64", "[2001:db8:1:2:3::4]:99", plain)
	f("remote_address/48=2001:db8:1::/48", "[2001:db8:1:2:3::4]:99", plain, d("remote_address/48"))
	f("method=GET,path=/a/b,host=example.com; method=GET,path=/%61/b,host=example.com", "10.0.0.1:99", plain, d("method", "path", "host"))
	f("cookie:sid=s,query:y= z,header:X-User=u1,generic_key=v", "192.0.2.1:99", plain, d("cookie:sid", "query:y", "header:X-User", "value:v"))
	f("client=user:u1,user=u1", "10.0.0.1:99", plain, d("client", "user"))
	f("client=address:192.0.2.1", "192.0.2.1:99", plain, d("client"), d("user"), d("method", "tier"))
	unless := d("remote_address")
	unless.Unless = "user"
	f("user=u1", "10.0.0.1:99", plain, unless, d("user"))
	f("remote_address=192.0.2.1", "192.0.2.1:99", plain, unless, d("user"))
}

func TestRoutes(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	rs, err := r.Routes([]identity.Route{
		{Name: "login", Path: "/login", Methods: []string{"POST"}},
		{Name: "order", Path: "/users/{id}/orders/*", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "route"}, {From: "param:id"}}}}},
		{Name: "admin", Host: "*.example.com", Path: "/admin/*"},
		{Name: "me", Path: "/users/me"},
		{Name: "user", Path: "/users/{id}", Methods: []string{"get"}},
		{Name: "shop", Host: "shop.example.com"},
		{Name: "api", Path: "/api/*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := func(want, method, host, path string) {
		t.Helper()
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Method: method, Host: host, Path: path})
		got := "none"
		if i := rs.Find(c); i >= 0 {
			got = rs.Route(i).Name
		}
		if got != want {
			t.Errorf("%s %s%s is %s, not %s", method, host, path, got, want)
		}
	}
	f("login", "POST", "", "/login")
	f("login", "post", "x.example.org", "/%6cogin/?x")
	f("none", "GET", "", "/login")
	f("none", "POST", "", "/Login")
	f("order", "GET", "", "/users/7/orders")
	f("order", "GET", "", "/users/me/orders/1/2")
	f("me", "GET", "", "/users/me")
	f("user", "HEAD", "", "/users/7")
	f("none", "PUT", "", "/users/7")
	f("admin", "GET", "a.b.Example.com.:8080", "/%61dmin/y")
	f("none", "GET", "example.com", "/admin")
	f("shop", "GET", "shop.example.com", "/")
	f("admin", "GET", "shop.example.com", "/admin")
	f("api", "GET", "", "/api")
	f("api", "GET", "", "/api/x")
	f("none", "GET", "", "/apix")
	f("api", "GET", "", "http://h/api/x")
	f("none", "GET", "", "/api/%zz")

	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Method: "GET", Path: "/users/a%20b/orders"})
	var req weir.Request
	if err := rs.Plan(rs.Find(c)).Fill(&req, c); err != nil || show(&req) != "route=order,param:id=a%20b" {
		t.Errorf("%s, %v", show(&req), err)
	}
}

func TestUnreadable(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	p, err := r.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}}},
		{Entries: []identity.EntryFrom{{From: "path"}, {From: "host"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []identity.Facts{{Path: "/%00"}, {Path: "/", Host: "a b"}, {Path: "login"}} {
		c := r.Acquire()
		c.Set(f)
		req := weir.Request{Descriptors: []weir.Descriptor{{}}}
		var e *identity.Error
		if err := p.Fill(&req, c); !errors.As(err, &e) || e.Status != 400 || len(req.Descriptors) != 1 {
			t.Errorf("%+v: %v, %d descriptors", f, err, len(req.Descriptors))
		}
		c.Release()
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range texts {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// show writes the descriptors of req on one line.
func show(req *weir.Request) string {
	var ds []string
	for _, d := range req.Descriptors {
		var es []string
		for _, e := range d.Entries {
			es = append(es, e.Key+"="+e.Value)
		}
		ds = append(ds, strings.Join(es, ","))
	}
	return strings.Join(ds, "; ")
}
