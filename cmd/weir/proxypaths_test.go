package main_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/store/memory"
)

// heard notes what is asked about, and what the application gets. It limits
// nothing.
type heard struct {
	mu         sync.Mutex
	asked, got []string
	// conns counts the connections to the limiter.
	conns atomic.Int64
}

func (h *heard) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range r.Descriptors {
		var b strings.Builder
		for _, e := range d.Entries {
			b.WriteString(e.Value + " ")
		}
		h.asked = append(h.asked, b.String())
	}
	return dst
}

// take returns what was noted since the last call.
func (h *heard) take() (asked, got []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked, got = h.asked, h.got
	h.asked, h.got = nil, nil
	return asked, got
}

// listen starts a limiter that answers proxies, and an application, both of which
// tell h.
func (h *heard) listen(t *testing.T) (limiter, app string) {
	t.Helper()
	who, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: "X-Forwarded-For"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "remote_address"}, {From: "method"}, {From: "host"}, {From: "path"}}}})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	t.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, h, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fa, err := forwardauth.New(forwardauth.Options{Authorize: authorize.Options{Limiter: lim, Identity: who, Plan: plan}, ClientHeader: "X-Forwarded-For"})
	if err != nil {
		t.Fatal(err)
	}
	application := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// As the application would be asked about, were it asked directly.
		c := who.Acquire()
		defer c.Release()
		path, query, _ := strings.Cut(r.RequestURI, "?")
		host := r.Host
		if host == "" { // then the proxy names none, and its own word for the limiter stands
			host = "weir"
		}
		c.Set(identity.Facts{Peer: netip.MustParseAddr("127.0.0.1"), Method: r.Method, Host: host, Path: path, Query: query})
		req := &weir.Request{}
		text := "unreadable " + r.RequestURI
		if plan.Fill(req, c) == nil {
			text = ""
			for _, e := range req.Descriptors[0].Entries {
				text += strings.Clone(e.Value) + " "
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, text)
	})
	one, two := httptest.NewUnstartedServer(fa), httptest.NewServer(application)
	one.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			h.conns.Add(1)
		}
	}
	one.Start()
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	return strings.TrimPrefix(one.URL, "http://"), strings.TrimPrefix(two.URL, "http://")
}

// raw sends bytes and returns the status of the answer, 0 if there is none.
func raw(t *testing.T, addr, request string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// Whatever the request looks like, what the application gets was asked about,
// as what it is: in no spelling is a path another one to the rules, and nothing
// that a client adds is taken for the proxy's words.
func TestProxiesAskAboutWhatTheyForward(t *testing.T) {
	for _, f := range []proxyFile{nginxFile("weir-fail-closed.conf", false, true), caddyFile("Caddyfile", false, true), haproxyFile(false, true)} {
		t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name), func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			weir, app := h.listen(t)
			addr := f.start(t, weir, app)
			reached := 0
			ask := func(request string) {
				t.Helper()
				code := raw(t, addr, request)
				asked, got := h.take() // a path with an odd escape is asked about in several forms
				line, _, _ := strings.Cut(request, "\r\n")
				if len(got) > 1 || len(got) == 1 && !slices.Contains(asked, got[0]) {
					t.Errorf("%s: %d; asked %q, the application got %q", line, code, asked, got)
				}
				if reached += len(got); len(got) == 1 && code != 200 || len(got) == 0 && code < 400 && code != 0 {
					t.Errorf("%s: %d, and the application got %q", line, code, got)
				}
			}
			for _, target := range []string{"/login", "//login", "///login//", "/login/", "/./login", "/a/../login", "/a//..//login", "/../login",
				"/%6cogin", "/%6Cogin", "/%2flogin", "/a%2f..%2flogin", "/a/%2e%2e/login", "/%2e/login", "/..%2flogin", "/..%5clogin", "/a\\..\\login", "/\\login",
				"/login;x=1", "/..;/login", "/a;/../login", "/login?x", "/login?", "/?/../login", "/login#x", "/login%23x", "/login%3fx", "/login%20", "/login%00", "/login%0a",
				"/log%25in", "/%2525", "/login%ff", "/%c0%afx", "/caf\xc3\xa9", "/caf%C3%A9", "/\xff", "/LOGIN", "/a:b@c", "/[x]", "/{x}", "/\"x\"", "/a|b", "/%zz", "/%", "/%2",
				"http://other.example/login", "http://other.example", "https://u:p@other.example:99/a/../login?x", "*", "login", "", "/" + strings.Repeat("a/", 2000) + "login"} {
				ask("GET " + target + " HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
			}
			// What servers read in two ways is refused.
			if reached < 15 {
				t.Errorf("the application was reached %d times only", reached)
			}
			for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "get", "TRACE", "CONNECT"} {
				ask(method + " /login HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\nContent-Length: 0\r\nX-HTTP-Method-Override: PUT\r\n\r\n")
			}
			for _, host := range []string{"shop.example", "Shop.EXAMPLE", "shop.example.", "shop.example:80", "shop.example:", "127.0.0.1", "[::1]", "[::1]:80", "a_b", "", "a, b", "a/b", "a@b", "a b"} {
				ask("GET /login HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			}
			ask("GET /login HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n")
			ask("GET /login HTTP/1.0\r\n\r\n")
			// The words of a client who would like to be asked about otherwise.
			for _, field := range []string{"X-Forwarded-Uri: /harmless", "X-Forwarded-Method: PUT", "X-Forwarded-Host: evil.example", "X-Original-Uri: /harmless",
				"X-Original-Url: https://evil.example/harmless", "X-Original-Method: PUT", "X-Forwarded-For: 203.0.113.1", "X-Real-IP: 203.0.113.1", "Forwarded: for=203.0.113.1",
				"X_Forwarded_Uri: /harmless", "X_Forwarded_For: 203.0.113.1", "X-Forwarded_Uri: /harmless", "x-forwarded-uri: /harmless",
				"X-Forwarded-Uri: /login\r\nX-Forwarded-Uri: /harmless", "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-For: 203.0.113.2", "Connection: X-Forwarded-Uri", "Connection: X-Forwarded-For, X-Forwarded-Method",
				"X-Forwarded-Uri : /harmless", "Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-Uri"} {
				body := ""
				if strings.HasPrefix(field, "Transfer") {
					body = "0\r\nX-Forwarded-Uri: /harmless\r\n\r\n"
				}
				ask("POST /login?x HTTP/1.1\r\nHost: shop.example\r\n" + field + "\r\nConnection: close\r\n\r\n" + body)
			}
		})
	}
}
