package gateway_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// noted notes which client is asked about, and limits nothing.
type noted struct{ client string }

func (n *noted) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	n.client = strings.Clone(r.Descriptors[0].Entries[0].Value)
	return dst
}

// wire is an upstream that notes what it is sent.
type wire struct{ saw http.Header }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.saw = r.Header.Clone()
	return &http.Response{StatusCode: 204, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// FuzzForwarded sends two headers of any name and value: neither chooses the
// counter, nor does the upstream hear anything but the peer's address.
func FuzzForwarded(f *testing.F) {
	f.Add("X-Forwarded-For", "192.0.2.9", "X-Real-IP", "192.0.2.9")
	f.Add("x_forwarded-for", "192.0.2.9, 198.51.100.1", "Forwarded", "for=192.0.2.9")
	f.Add("Connection", "X-Forwarded-For", "X-FORWARDED_PORT", "1")
	f.Add("X-Forwarded-For", "", "X-Forwarded-For", "\"[::1]:80\"")
	f.Add("Upgrade", "x", "Connection", "upgrade, x-forwarded-host")
	var rules noted
	var up wire
	store := memory.New(memory.Options{})
	f.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, &rules, weir.Options{})
	if err != nil {
		f.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: lim},
		Default: gateway.Forward{Transport: &up, Upstream: &url.URL{Scheme: "http", Host: "upstream.example"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		const peer = "198.51.100.7"
		r := httptest.NewRequest("GET", "http://api.example/", nil)
		r.RemoteAddr = peer + ":4711"
		r.Header.Add(name1, value1)
		r.Header.Add(name2, value2)
		up.saw = nil
		g.ServeHTTP(httptest.NewRecorder(), r)
		if rules.client != peer {
			t.Errorf("counted as %q", rules.client)
		}
		// The proxy may refuse what it cannot forward.
		for key, values := range up.saw {
			name := strings.ReplaceAll(strings.ToLower(key), "_", "-")
			switch {
			case name != "forwarded" && name != "x-real-ip" && !strings.HasPrefix(name, "x-forwarded-"):
			case key == "X-Forwarded-For" && len(values) == 1 && values[0] == peer:
			case key == "X-Forwarded-Host" && len(values) == 1 && values[0] == "api.example":
			case key == "X-Forwarded-Proto" && len(values) == 1 && values[0] == "http":
			default:
				t.Errorf("the upstream saw %s: %q", key, values)
			}
		}
		if up.saw != nil && up.saw.Get("X-Forwarded-For") != peer {
			t.Errorf("the upstream was not told the peer: %v", up.saw)
		}
	})
}

// FuzzPath sends any request target: what goes to the upstream is a path, what
// was asked for if the upstream has none of its own, and never outside of the
// one that it has.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"/", "/a/../b", "//a", "/%2e%2e/x", "/a%2F..%2Fb", "/..;/x", "http://h/a?b", "http://h", "*", "a", "/a|b", "//a|b", "/a#b",
		"/\\..\\x", "/%", "/a?/../x", "/%5c..%5cx", "/api/../../x", "/api", "/%61pi/x", "/%21",
	} {
		f.Add(s)
	}
	var up lineOf
	store := memory.New(memory.Options{})
	f.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, &noted{}, weir.Options{})
	if err != nil {
		f.Fatal(err)
	}
	open := func(base, strip string) *gateway.Gateway {
		g, err := gateway.New(gateway.Options{Limits: httplimit.Options{Limiter: lim}, Default: gateway.Forward{
			Transport: &up, Upstream: &url.URL{Scheme: "http", Host: "upstream.example", Path: base}, StripPrefix: strip,
		}})
		if err != nil {
			f.Fatal(err)
		}
		return g
	}
	plain, inside := open("", ""), open("/public", "/api")
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		if err != nil {
			return // the server answers 400
		}
		r.RemoteAddr = "192.0.2.1:1"
		up.uri = ""
		plain.ServeHTTP(httptest.NewRecorder(), r)
		if up.uri != "" && up.uri[0] != '/' {
			t.Errorf("%q went on as %q", target, up.uri)
		}
		if up.uri != "" && strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"#<>", r) }) {
			t.Errorf("%q went on as %q", target, up.uri)
		}
		if up.uri != "" && target[0] == '/' && !strings.HasPrefix(target, "//") && up.uri != target {
			t.Errorf("%q went on as %q", target, up.uri)
		}
		up.uri = ""
		inside.ServeHTTP(httptest.NewRecorder(), r)
		if up.uri == "" {
			return // refused
		}
		path, _, _ := strings.Cut(up.uri, "?")
		canon, err := identity.Canonical(path, identity.PathOptions{})
		if err != nil || canon != "/public" && !strings.HasPrefix(canon, "/public/") {
			t.Errorf("%q went on as %q, which reads as %q, %v", target, up.uri, canon, err)
		}
	})
}

// lineOf is an upstream that notes the target it is asked for.
type lineOf struct{ uri string }

func (l *lineOf) RoundTrip(r *http.Request) (*http.Response, error) {
	l.uri = r.URL.RequestURI()
	return &http.Response{StatusCode: 204, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}
