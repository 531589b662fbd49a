package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// checkValues fails unless all values that the plan makes of f are short, clean
// text.
func checkValues(t testing.TB, r *identity.Resolver, p *identity.Plan, f identity.Facts) {
	t.Helper()
	c := r.Acquire()
	defer c.Release()
	c.Set(f)
	var req weir.Request
	if err := p.Fill(&req, c); err != nil {
		return
	}
	for _, d := range req.Descriptors {
		for _, e := range d.Entries {
			if e.Value == "" || len(e.Value) > 140 || !utf8.ValidString(e.Value) || strings.ContainsFunc(e.Value, unicode.IsControl) {
				t.Fatalf("%s=%q of %+v", e.Key, e.Value, f)
			}
		}
	}
}

func TestCookie(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(want string, lines ...string) {
		t.Helper()
		if got := identitytest.ValueOf(t, r, "cookie:sid", identity.Facts{Header: http.Header{"Cookie": lines}}); got != want {
			t.Errorf("%q: %q, not %q", lines, got, want)
		}
	}
	f("a", "sid=a")
	f("a", "x=y; sid=a; sid=b")
	f("a", "x=y", "z;sid = a")
	f("a=b", "sid=a=b")
	f("", "xsid=b", "sid=")
	f("a", "SID=a")
	f(`""`, `sid=""`) // to some a value in quotes
	f("", "")
	f("", strings.Repeat(";", 10_000))
}

func TestQuery(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(want, query string) {
		t.Helper()
		if got := identitytest.ValueOf(t, r, "query:k", identity.Facts{Query: query}); got != want {
			t.Errorf("%q: %q, not %q", query, got, want)
		}
	}
	f("v", "k=v")
	f("v", "x=y&k=v&k=w")
	f("v", "%6b=v")
	f("a b c", "k=a+b%20c")
	f("a=b", "k=a=b")
	f("", "kk=v&k&k=")
	f("v", "K=v")
	f("", "")
}

// TestLongValues: what is too long or not clean becomes a digest, the same on
// every node, and different for different values.
func TestLongValues(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(v string) string {
		return identitytest.ValueOf(t, r, "header:X", identity.Facts{Header: http.Header{"X": {v}}})
	}
	long := strings.Repeat("a", 129)
	// printf %0129d 0 | tr 0 a | sha256sum
	if got := f(long); got != "sha256:"+identitytest.Digest(long)[:32] {
		t.Error(got)
	}
	if f(long[:128]) != long[:128] || f(long) == f(long+"a") {
		t.Error("digests of values that fit, or the same one")
	}
	for _, v := range []string{"a\x00b", "a\nb", "a\x7f", "\xff", "a\u0085b", "\xc0\xaf"} {
		if got := f(v); got != "sha256:"+identitytest.Digest(v)[:32] {
			t.Errorf("%q is %q", v, got)
		}
	}
	if got := f("grün\u200b"); got != "grün\u200b" {
		t.Error(got)
	}
}

// TestKeyInjection is group 5 of the threats: no value can pose as two, or as
// one of another kind.
func TestKeyInjection(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.1/32")}, User: []string{"header:X-User"},
	})
	p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "header:A"}, {From: "header:B"}}}})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, v := range [][2]string{{"a|b", "c"}, {"a", "b|c"}, {"a:b", "c"}, {"a,b", "c"}, {"a\x1fb", "c"}, {"a", "b\x1fc"}, {"a\x1fb\x1f3", "c"}, {"ab", "c"}, {"a", "bc"}} {
		c := r.Acquire()
		c.Set(identity.Facts{Header: http.Header{"A": {v[0]}, "B": {v[1]}}})
		var req weir.Request
		if err := p.Fill(&req, c); err != nil {
			t.Fatal(err)
		}
		es := req.Descriptors[0].Entries
		k := strings.Clone(req.Key(es[0].Value, es[1].Value))
		if was, ok := keys[k]; ok {
			t.Errorf("%q and %q are one", v, was)
		}
		keys[k] = strings.Join(v[:], " ")
		c.Release()
	}
	for _, user := range []string{"address:192.0.2.1", "api_key:x", "user:x", "192.0.2.1"} {
		got := identitytest.ValueOf(t, r, "client", identity.Facts{Peer: prefixes("10.0.0.1/32")[0].Addr(), Header: http.Header{"X-User": {user}}})
		if got != "user:"+user {
			t.Errorf("user %s is %s", user, got)
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, s := range []string{"sid=a; b=c", "k=%zz&k", "Basic x", "\x00", strings.Repeat("x", 200)} {
		f.Add(s, s, s)
	}
	r := identitytest.New(f, identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key", "bearer", "query:key", "cookie:key"}},
	})
	var ds []identity.Descriptor
	for _, from := range []string{"remote_address", "cookie:sid", "query:k", "header:X", "api_key", "client", "unverified_jwt:sub", "path", "host", "method"} {
		ds = append(ds, identity.Descriptor{Entries: []identity.EntryFrom{{From: from}}})
	}
	p, err := r.Plan(ds)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, cookie, query, other string) {
		checkValues(t, r, p, identity.Facts{Method: other, Host: other, Path: "/", Query: query, Header: http.Header{
			"Cookie": {cookie, other}, "X": {other}, "Authorization": {other}, "X-Api-Key": {cookie},
		}})
	})
}
