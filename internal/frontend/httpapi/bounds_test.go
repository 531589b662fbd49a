package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// TestSlowBody: a client that does not send its body is let go.
func TestSlowBody(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{BodyTimeout: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /shouldAllowRequest HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"cli")
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn) // until the server closes
	if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 408 ")) || !bytes.Contains(b, []byte("did not arrive in time")) {
		t.Errorf("got %v %s", err, b)
	}
}

// TestKeepAliveSurvivesTheBodyTimeout: the bound is on a body, not on the
// pause between requests.
func TestKeepAliveSurvivesTheBodyTimeout(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{BodyTimeout: 500 * time.Millisecond})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		const body = `{"clientId":"a"}`
		fmt.Fprintf(conn, "POST /shouldAllowRequest HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil || !strings.HasSuffix(string(b[:n]), `{"allowed":true}`) {
			t.Fatalf("got %v %s", err, b[:n])
		}
		// Idle for longer than the bound: an idle read that times out is proof
		// that the server has not closed.
		if err := conn.SetReadDeadline(time.Now().Add(700 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(b); err == nil || !err.(net.Error).Timeout() {
			t.Fatalf("the connection ended: %v", err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFamilyRefusedBodiesAreAnsweredAtOnce: a body for which there is no room, and one
// that is too large, are refused as soon as that is known, however little of them is
// missing, and the connection ends; over HTTP/2 it goes on.
func TestFamilyRefusedBodiesAreAnsweredAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	runs := 4
	if os.Getenv("WEIR_SOAK") == "1" {
		runs = 200
	}
	const small, batch = 64 << 10, 1 << 20 // bounds of bodies
	most := map[string]int{"/shouldAllowRequest": small, "/v1/check": batch, "/v1/explain": small, "/v1/acquire": small, "/v1/admin/inspect": small, "/v1/admin/ban": small}
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{Bodies: bodies.New(1), BodyTimeout: time.Hour, AdminToken: token})
	for path, most := range most {
		for range runs {
			for _, c := range []struct {
				name        string
				size, sends int // the size announced, and what arrives of it
				status      string
			}{
				{"no room", most, most - 1 - r.IntN(100), "503"},
				{"no room", 1 + most/2 + r.IntN(most/2), most / 2, "503"},
				{"too large", most + 1 + r.IntN(256<<10), 0, "413"},
				{"too large", most + 1, most, "413"},
				{"no room, of unknown size", -1, most / 2, "503"},
			} {
				conn, err := net.Dial("tcp", srv.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
					t.Fatal(err)
				}
				head, body := fmt.Sprintf("Content-Length: %d", c.size), strings.Repeat(" ", c.sends)
				if c.size < 0 {
					head, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s", c.sends+1, body)
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", path, token, head, body) // may be refused while it is sent
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("%s, %s, %d of %d bytes: %v", path, c.name, c.sends, c.size, err)
				}
				if !strings.HasPrefix(res.Status, c.status) || !res.Close {
					t.Errorf("%s, %s, %d of %d bytes: %s, the connection ends: %t", path, c.name, c.sends, c.size, res.Status, res.Close)
				}
				conn.Close()
			}
		}
	}
	h2 := httptest.NewUnstartedServer(srv.api)
	h2.Config.Protocols = new(http.Protocols)
	h2.Config.Protocols.SetUnencryptedHTTP2(true)
	var accepted atomic.Int64
	h2.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}
	h2.Start()
	defer h2.Close()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for range 20 {
		for size, want := range map[int]int{16: 200, 32 << 10: 503, 65 << 10: 413} {
			res, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Post(h2.URL+"/shouldAllowRequest", "", strings.NewReader(`{"clientId":"a"}`+strings.Repeat(" ", size-16)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want {
				t.Errorf("HTTP/2, %d bytes: %d, %v, want %d", size, res.StatusCode, err, want)
			}
			res.Body.Close()
		}
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("60 requests over HTTP/2 took %d connections", n)
	}
}

// gate is a store whose Take waits.
type gate struct {
	weir.Store
	entered, open chan struct{}
}

func (g *gate) Take(ctx context.Context, ops []weir.Op) error {
	g.entered <- struct{}{}
	<-g.open
	return g.Store.Take(ctx, ops)
}

func TestInFlight(t *testing.T) {
	g := &gate{Store: clocked.New(t), entered: make(chan struct{}), open: make(chan struct{})}
	srv := serve(t, g, weir.Limits{named("permin", weir.PerMinute(5, algorithm.FixedWindow))}, httpapi.Options{MaxInFlight: 2})
	answers := make(chan int)
	for range 2 {
		go func() {
			res, err := http.Post(srv.URL+"/shouldAllowRequest", "", strings.NewReader(`{"clientId":"a"}`))
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			res.Body.Close()
			answers <- res.StatusCode
		}()
		<-g.entered
	}
	res, got := exchange(t, "POST", srv.URL, "/shouldAllowRequest", `{"clientId":"a"}`, nil)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(got, "#temporary-reduced-capacity") {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
	close(g.open)
	for range 2 {
		if s := <-answers; s != 200 {
			t.Errorf("got %d", s)
		}
	}
}

func TestLargestBodies(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{})
	const body = `{"clientId":"a"}`
	f := func(n int, chunked bool, want int) {
		t.Helper()
		var r io.Reader = strings.NewReader(body + strings.Repeat(" ", n-len(body)))
		if chunked {
			r = io.MultiReader(r) // of unknown length
		}
		res, err := http.Post(srv.URL+"/shouldAllowRequest", "", r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes, chunked %t: got %d, want %d", n, chunked, res.StatusCode, want)
		}
	}
	for _, chunked := range []bool{false, true} {
		f(64<<10, chunked, 200)
		f(64<<10+1, chunked, 413)
		f(1<<20, chunked, 413)
	}
}

// TestHTTP2: the same answers over HTTP/2 without TLS.
func TestHTTP2(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{named("permin", weir.PerMinute(1, algorithm.FixedWindow))}, httpapi.Options{})
	h2 := httptest.NewUnstartedServer(srv.api)
	h2.Config.Protocols = new(http.Protocols)
	h2.Config.Protocols.SetUnencryptedHTTP2(true)
	h2.Start()
	defer h2.Close()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for _, want := range []string{`{"allowed":true}`, `{"allowed":false}`} {
		res, err := (&http.Client{Transport: tr}).Post(h2.URL+"/shouldAllowRequest", "text/plain", strings.NewReader(`{"clientId":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.ProtoMajor != 2 || string(b) != want {
			t.Errorf("got %s %s %v, want %s", res.Proto, b, err, want)
		}
	}
}

func TestGuard(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "next") })
	f := func(trusted, remote, path string, h http.Header, api bool) {
		t.Helper()
		var prefixes []netip.Prefix
		if trusted != "" {
			prefixes = append(prefixes, netip.MustParsePrefix(trusted))
		}
		rec := httptest.NewRecorder()
		r := httptest.NewRequest("POST", path, strings.NewReader(`{"clientId":"a"}`))
		r.RemoteAddr = remote
		for k, v := range h {
			r.Header[k] = v
		}
		httpapi.Guard(prefixes, nil, srv.api, srv.api, next).ServeHTTP(rec, r)
		if got := rec.Body.String() != "next"; got != api {
			t.Errorf("%s asks for %s, %q trusted, %v: served by the API: %t, want %t", remote, path, trusted, h, got, api)
		}
	}
	const path = "/shouldAllowRequest"
	// A loopback address proves nothing.
	for _, remote := range []string{"127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "192.0.2.1:1", "@", ""} {
		f("", remote, path, nil, false)
		f("", remote, "/openapi.json", nil, false)
	}
	f("127.0.0.1/32", "127.0.0.1:1", path, nil, true)
	f("127.0.0.1/32", "[::ffff:127.0.0.1]:1", path, nil, true)
	f("127.0.0.1/32", "127.0.0.1:1", "/openapi.json", nil, true)
	f("127.0.0.1/32", "127.0.0.1:1", "/v1/users", nil, false) // the upstream's own
	f("127.0.0.1/32", "127.0.0.1:1", "/", nil, false)
	f("127.0.0.1/32", "[::1]:1", path, nil, false)
	f("192.0.2.0/24", "192.0.2.1:1", path, nil, true)
	f("192.0.2.0/24", "[::ffff:192.0.2.1]:1", path, nil, true)
	f("192.0.2.0/24", "198.51.100.1:1", path, nil, false)
	f("fe80::/10", "[fe80::1%eth0]:1", path, nil, true)
	// A proxy on this machine speaks for somebody else, unless it is trusted.
	for _, k := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		f("", "127.0.0.1:1", path, http.Header{k: {"x"}}, false)
		f("127.0.0.1/32", "127.0.0.1:1", path, http.Header{k: {"x"}}, true)
	}
	// Without a token none is the right one.
	for _, authorization := range []string{"Bearer ", "Bearer", "Bearer x"} {
		f("", "127.0.0.1:1", path, http.Header{"Authorization": {authorization}}, false)
	}
}

// Whoever has the admin token is trusted, wherever the request comes from. A wrong
// token is counted as a guess and goes to the upstream.
func TestGuardTakesTheToken(t *testing.T) {
	const token = "0123456789abcdef"
	bound, err := guesses.New(0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Close()
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{AdminToken: token, Guesses: bound})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "next") })
	f := func(api bool, wrong uint64, authorization ...string) {
		t.Helper()
		before := bound.Count()
		rec := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/shouldAllowRequest", strings.NewReader(`{"clientId":"a"}`))
		r.Header["Authorization"] = authorization
		httpapi.Guard(nil, nil, srv.api, srv.api, next).ServeHTTP(rec, r)
		if got := rec.Body.String() != "next"; got != api {
			t.Errorf("%q: served by the API: %t, want %t", authorization, got, api)
		}
		if got := bound.Count() - before; got != wrong {
			t.Errorf("%q: %d guesses counted, want %d", authorization, got, wrong)
		}
	}
	f(true, 0, "Bearer "+token)
	f(true, 0, "bearer "+token)
	f(false, 0)
	f(false, 0, "")
	f(false, 0, "Bearer ")
	f(false, 1, "Bearer "+token+"0")
	f(false, 1, "Bearer "+token[1:])
	f(false, 1, "Basic "+token)
	f(false, 1, "Bearer x", "Bearer "+token)
	for range 100 {
		f(false, 1, "Bearer x")
	}
	f(true, 0, "Bearer "+token)
}

// Behind a proxy the client counts, not the proxy.
func TestGuardThroughProxies(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "next") })
	f := func(remote, client string, api bool) {
		t.Helper()
		who := func(*http.Request) netip.Addr { return netip.MustParseAddr(client) }
		rec := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/shouldAllowRequest", strings.NewReader(`{"clientId":"a"}`))
		r.RemoteAddr = remote
		httpapi.Guard([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, who, srv.api, srv.api, next).ServeHTTP(rec, r)
		if got := rec.Body.String() != "next"; got != api {
			t.Errorf("%s for %s: served by the API: %t, want %t", remote, client, got, api)
		}
	}
	f("10.0.0.1:1", "10.0.0.1", true)
	f("10.0.0.1:1", "10.9.9.9", true)
	f("10.0.0.1:1", "203.0.113.9", false)
	f("10.0.0.1:1", "127.0.0.1", false)
	f("127.0.0.1:1", "203.0.113.9", false)
	f("127.0.0.1:1", "127.0.0.2", false)
	f("127.0.0.1:1", "127.0.0.1", false)
}
