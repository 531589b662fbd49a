package identity_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// TestCanonicalPath is group 2 of the threats: every way to write one path.
func TestCanonicalPath(t *testing.T) {
	f := func(want string, paths ...string) {
		t.Helper()
		for _, p := range paths {
			if got, err := identity.Canonical(p, identity.PathOptions{}); got != want || err != nil {
				t.Errorf("%q is %q, %v, not %q", p, got, err, want)
			}
		}
	}
	f("/", "", "/", "/?x")
	f("/login", "/login", "/login/", "/%6cogin", "/%6Cogin", "/login?x=1", "/login/?x=//..")
	f("/Login", "/Login", "/%4cogin")
	f("/LOGIN", "/LOGIN")
	f("/.../..b/c..", "/.../..b/c../", "/%2e../.%2eb/c.%2e")
	f("/a%20b", "/a%20b", "/a b")
	f("/a%25b", "/a%25b")
	f("/%256cogin", "/%256cogin") // decoded once
	f("/a%3Fb%23c", "/a%3fb%23c", "/a%3Fb#c")
	f("/a:b@c!$&'()*+,=~_-.d", "/a:b@c!$&'()*+,=~_-.d", "/a%3Ab%40c%21%24%26%27%28%29%2A%2B%2C%3D%7E%5F%2D%2Ed")
	f("/%C3%A9%F0%9F%98%80", "/%c3%a9%f0%9f%98%80", "/\u00e9\U0001f600", "/%c3\xa9\xf0%9f%98\x80")
	f("/%EF%BF%BD", "/\ufffd")
	f("/%22%3C%3E%5B%5D%5E%60%7B%7C%7D", `/"<>[]^`+"`{|}")
}

func TestCanonicalPathOptions(t *testing.T) {
	f := func(want, path string, opt identity.PathOptions) {
		t.Helper()
		if got, err := identity.Canonical(path, opt); got != want || err != nil {
			t.Errorf("%q is %q, %v, not %q", path, got, err, want)
		}
	}
	f("/login", "/LoGin", identity.PathOptions{IgnoreCase: true})
	f("/login", "/%4CoGin", identity.PathOptions{IgnoreCase: true})
	f("/%C3%A9t%C3%A9/to", "/\u00c9t%c3%89/T%4f", identity.PathOptions{IgnoreCase: true})
	f("/kin", "/%E2%84%AA%C4%B0n", identity.PathOptions{IgnoreCase: true}) // the sign of the kelvin, and a dotted I
	allow := func(words ...string) identity.PathOptions { return identity.PathOptions{Allow: words} }
	f("/@scope%2Fname", "/@scope%2fname", allow("encoded_slash"))
	f("/a%5Cb", `/a%5cb`, allow("backslash"))
	f("/a%5Cb", `/a\b`, allow("backslash"))
	f("/a%22/b", `/a"/b`, allow("encoded_slash"))
	f("/login/x", "/login;a=1;b/x;c%20%c3%a9", allow("parameters"))
	f("/login/x", "/login//x///", allow("empty_segments"))
	f("/login", "/;a/login/;b", allow("parameters", "empty_segments"))
	for _, p := range []string{`/a%2fb"`, "/a%2fb c", "/a%5cb|", "/a%2fb\u00e9", `/a\b%2f`, "/a%2f|"} {
		if got, err := identity.Canonical(p, allow("encoded_slash", "backslash")); err == nil {
			t.Errorf("%q is %q", p, got)
		}
	}
	if _, err := identity.Canonical("/a;b", allow("parameter")); err == nil || !strings.Contains(err.Error(), `did you mean "parameters"`) {
		t.Error(err)
	}
}

func TestUnreadablePath(t *testing.T) {
	for _, p := range []string{
		"login", "%2flogin", ";/login", // no slash
		"/%", "/a%2", "/%zz", "/%u0041", "/%%41", // no escape
		"/\x00", "/%00", "/a%00.png", "/a\nb", "/%0d%0aSet-Cookie:x", "/\x7f", "/%7F", "/a;%00", "/\t",
		"/%c0%af", "/%C0%AE%c0%ae/", "/\xc0\xaf", "/%e0%80%af", "/%f0%80%80%af", // overlong slashes and dots
		"/%ed%a0%80", "/%ff", "/\x80", "/%c3", "/%c3%", "/%c3/x", "/%c3a", "/%f8%88%80%80%80", "/a;%c0%af", // not UTF-8
		"/" + strings.Repeat("a", 8192),
	} {
		got, err := identity.Canonical(p, identity.PathOptions{})
		var e *identity.Error
		if !errors.As(err, &e) || e.Status != 400 || got != "" {
			t.Errorf("%q is %q, %v", p, got, err)
		} else if p != "/%" && strings.Contains(e.Error(), p) {
			t.Errorf("%q is repeated to the client: %s", p, e)
		}
	}
	if _, err := identity.Canonical("/"+strings.Repeat("a", 8191), identity.PathOptions{}); err != nil {
		t.Error(err)
	}
}

func TestCanonicalHostAndMethod(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(want string, facts ...identity.Facts) {
		t.Helper()
		for _, f := range facts {
			c := r.Acquire()
			c.Set(f)
			got := c.Method() + " " + c.Host()
			if c.Err() != nil {
				got = "fault"
			}
			if got != want {
				t.Errorf("%+v: %s, not %s", f, got, want)
			}
			c.Release()
		}
	}
	host := func(names ...string) (fs []identity.Facts) {
		for _, n := range names {
			fs = append(fs, identity.Facts{Host: n})
		}
		return fs
	}
	f("GET example.com", host("example.com", "EXAMPLE.com", "example.com.", "example.com:80", "Example.Com.:8443", "example.com:")...)
	f("GET example.com", identity.Facts{Host: "other", Path: "http://Example.com:80/x"}, identity.Facts{Path: "https://user:pw@example.com"})
	f("GET [2001:db8::1]", host("[2001:db8::1]", "[2001:DB8:0:0::1]:443")...)
	f("GET 192.0.2.1", host("192.0.2.1", "192.0.2.1:80")...)
	f("GET ", host("")...)
	f("fault", host(".", "..", "a..", "a..b", "a b", "a/b", "a@b", "a,b", "exämple.com", "a\x00", "a\r\nb", "[::1", "[::1]x", "[::1%25eth0]", "[1.2.3.4]", "a:b", "a:80:80", "2001:db8::1", strings.Repeat("a", 256))...)

	method := func(names ...string) (fs []identity.Facts) {
		for _, n := range names {
			fs = append(fs, identity.Facts{Method: n})
		}
		return fs
	}
	f("GET ", method("GET", "get", "HEAD", "Head", "")...)
	f("POST ", method("POST", "post", "Post")...)
	f("PROPFIND ", method("PROPFIND", "propfind")...)
	f("fault", method("GE T", "GET\n", "G\x00", "É", strings.Repeat("A", 33))...)
}

// TestMethodOverride: what a header says of the method counts only where the
// upstream listens to it, and there for a POST alone.
func TestMethodOverride(t *testing.T) {
	f := func(want, override, method, header string) {
		t.Helper()
		c := identitytest.New(t, identity.Options{MethodOverride: override}).Acquire()
		c.SetHTTP(read(t, "192.0.2.1:1", method+" / HTTP/1.1\nHost: h\nX-HTTP-Method-Override: "+header))
		if got := c.Method(); got != want {
			t.Errorf("%q: %s %s is %s, not %s", override, method, header, got, want)
		}
	}
	f("POST", "", "POST", "GET")
	f("GET", "", "GET", "DELETE")
	f("DELETE", "x-http-method-override", "POST", "delete")
	f("GET", "X-HTTP-Method-Override", "POST", "HEAD")
	f("GET", "X-HTTP-Method-Override", "GET", "DELETE")
	f("PUT", "X-HTTP-Method-Override", "PUT", "GET")
	f("", "X-HTTP-Method-Override", "POST", "DE LETE")
	f("", "X-HTTP-Method-Override", "POST", "GET\nX-HTTP-Method-Override: DELETE")
}

// TestDoorsAgree: a request read by net/http, over HTTP/1.1 or with the pseudo
// headers of HTTP/2, and the same told as facts, are one.
func TestDoorsAgree(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	for _, target := range []string{
		"/login", "/%6cogin", "/login/", "/a%20b", `/a"b`, "/%E2%82%AC", "/a%3fb?c", "/%25", "/%256c",
		"http://Example.com:80/login?x=1", "http://example.com", "/a!b'(c)*d", "/a%21b%27(c%29", "/a[b]{c}|^`", "/*", "/a%3be",
	} {
		one := r.Acquire()
		one.SetHTTP(read(t, "192.0.2.1:1", "GET "+target+" HTTP/1.1\nHost: EXAMPLE.com."))
		want, err := one.Path()
		two := r.Acquire()
		path, query, _ := strings.Cut(target, "?")
		two.Set(identity.Facts{Method: "GET", Host: "example.com:443", Path: path, Query: query})
		got, err2 := two.Path()
		if got != want || err != nil || err2 != nil || one.Host() != two.Host() || one.Method() != two.Method() {
			t.Errorf("%s: %s %s (%v), %s %s (%v)", target, one.Host(), want, err, two.Host(), got, err2)
		}
		one.Release()
		two.Release()
	}
	// What has no path must not be taken for one, as it may be forwarded.
	for _, target := range []string{"http:login", "mailto:a@b", "x:%2flogin"} {
		c := r.Acquire()
		c.SetHTTP(read(t, "192.0.2.1:1", "GET "+target+" HTTP/1.1\nHost: h"))
		if p, err := c.Path(); err == nil {
			t.Errorf("%s is %s", target, p)
		}
	}
	c := r.Acquire()
	c.SetHTTP(read(t, "192.0.2.1:1", "OPTIONS * HTTP/1.1\nHost: h"))
	if p, err := c.Path(); p != "/*" || err != nil {
		t.Errorf("%q, %v", p, err)
	}
}

// TestHTTPVersionsAgree: what a server makes of the Host of HTTP/1.1 and of
// the :authority of HTTP/2 is one host, and the paths are one.
func TestHTTPVersionsAgree(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		c := r.Acquire()
		defer c.Release()
		c.SetHTTP(hr)
		p, err := c.Path()
		fmt.Fprint(w, c.Method(), " ", c.Host(), p, " ", err)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for version := 1; version <= 2; version++ {
		client := s.Client()
		tr := client.Transport.(*http.Transport).Clone()
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetHTTP1(version == 1)
		tr.Protocols.SetHTTP2(version == 2)
		tr.TLSClientConfig.NextProtos = [][]string{{"http/1.1"}, {"h2"}}[version-1]
		client.Transport = tr
		for _, host := range []string{"Shop.Example.COM", "shop.example.com.", "SHOP.example.com:443"} {
			req, err := http.NewRequest("GET", s.URL+"/a/%6cogin/?q", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := string(body); err != nil || resp.ProtoMajor != version || got != "GET shop.example.com/a/login <nil>" {
				t.Errorf("HTTP/%d, %s: %s %v", resp.ProtoMajor, host, got, err)
			}
		}
		tr.CloseIdleConnections()
	}
}

// FuzzCanonical: the canonical form is its own canonical form, is clean, and
// is that of what net/http makes of the path.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"/login", "//a/./b/../c/;x=1", "/%2e%2E/%2f%5c", "/%c3%a9", "/a%25%3b", "/a\\..\\b", "/\xc0\xaf", "/%", "/\x00", "http://h/x", "/|%3B"} {
		f.Add(s, false, false)
		f.Add(s, true, true)
	}
	f.Fuzz(func(t *testing.T, path string, ignore, all bool) {
		opt := identity.PathOptions{IgnoreCase: ignore}
		if all {
			opt.Allow = []string{"backslash", "parameters", "encoded_slash", "empty_segments"}
		}
		got, err := identity.Canonical(path, opt)
		if err != nil {
			var e *identity.Error
			if !errors.As(err, &e) || got != "" {
				t.Fatalf("%q: %q, %v", path, got, err)
			}
			return
		}
		if again, err := identity.Canonical(got, opt); again != got || err != nil {
			t.Fatalf("%q: %q, then %q, %v", path, got, again, err)
		}
		if got == "" || got[0] != '/' || strings.Contains(got, "//") || strings.Contains(got+"/", "/./") || strings.Contains(got+"/", "/../") ||
			got != "/" && got[len(got)-1] == '/' || strings.ContainsAny(got, ";?#\\ ") || !utf8.ValidString(got) {
			t.Fatalf("%q: %q", path, got)
		}
		for i := 0; i < len(got); i++ {
			if got[i] <= ' ' || got[i] >= 0x7f {
				t.Fatalf("%q: %q", path, got)
			}
		}
		if len(path) > 2000 || strings.Contains(path, "#") || strings.HasPrefix(path, `\`) {
			return // escapes make it longer; a client cuts a fragment; Go wants a slash
		}
		if u, err := url.ParseRequestURI(path); err == nil && u.Host == "" && path != "" {
			if other, err := identity.Canonical(u.EscapedPath(), opt); other != got || err != nil {
				t.Fatalf("%q: %q here, %q, %v by way of net/url", path, got, other, err)
			}
		}
	})
}

// FuzzHost: the canonical form is its own, and holds nothing that could be
// taken for anything but a host.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"Example.COM.:80", "[2001:DB8::1]:443", "a..b", "h\r\nx", "xn--bcher-kva.example", "[::ffff:1.2.3.4]"} {
		f.Add(s)
	}
	r := identitytest.New(f, identity.Options{})
	f.Fuzz(func(t *testing.T, host string) {
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Host: host})
		got := c.Host()
		if c.Err() != nil {
			if got != "" {
				t.Fatalf("%q: %q and a fault", host, got)
			}
			return
		}
		if strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") != "" || len(got) > 255 || strings.HasSuffix(got, ".") {
			t.Fatalf("%q: %q", host, got)
		}
		c.Set(identity.Facts{Host: got})
		if again := c.Host(); again != got || c.Err() != nil {
			t.Fatalf("%q: %q, then %q", host, got, again)
		}
	})
}
