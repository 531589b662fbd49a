package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// broken is an upstream that reads a request, writes what it is told to, and
// resets or closes the connection, or hangs until it is closed.
type broken struct {
	net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newBroken(t *testing.T, answer string, hang bool) *broken {
	t.Helper()
	ln := servertest.Listen(t)
	b := &broken{Listener: ln, conns: map[net.Conn]bool{}}
	b.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns[conn] = true
			b.mu.Unlock()
			b.wg.Go(func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				if answer == "" && !hang {
					if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset
						t.Error(err)
					}
					return
				}
				if _, err := io.WriteString(conn, answer); err != nil {
					return
				}
				if hang {
					_, _ = io.Copy(io.Discard, conn) // until either side closes
				}
			})
		}
	})
	return b
}

func (b *broken) end() {
	b.Listener.Close()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// cut: the client's connection is broken off.
const cut = 0

// TestUpstreamFails under load, in every way: clients are told so or cut off,
// and afterwards there is no goroutine, no lease and no charge that should not
// be there.
func TestUpstreamFails(t *testing.T) {
	f := func(name, answer string, hang bool, want int, refunded bool) {
		t.Run(name, func(t *testing.T) { testUpstreamFails(t, name, answer, hang, want, refunded) })
	}
	f("down", "", false, 502, true)
	f("reset", "", false, 502, true)
	f("garbage", "SSH-2.0-OpenSSH_9\r\n\r\n", false, 502, true)
	f("half a header", "HTTP/1.1 200 OK\r\nContent-Le", false, 502, true)
	f("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", false, 502, true)
	f("hangs", "", true, 504, true)
	f("hangs in the header", "HTTP/1.1 200 OK\r\n", true, 504, true)
	f("dies in the body", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 50000), false, cut, true)
	f("dies in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nsome", false, cut, true)
	f("dies between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", false, cut, true)
	f("hangs in the body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", true, cut, true)
	f("switches unasked", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", false, 502, true)
	// The upstream's own 502 is an answer like any other, so it counts here.
	f("says 502", "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false, 502, false)
	f("is well", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwell", false, 200, false)
}

func testUpstreamFails(t *testing.T, name, text string, hang bool, want int, refunded bool) {
	store := clocked.New(t)
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	up := newBroken(t, text, hang)
	upstream := &url.URL{Scheme: "http", Host: up.Addr().String()}
	if name == "down" {
		up.end()
	}
	counted := weir.PerHour(1000, algorithm.FixedWindow)
	counted.Name = "counted"
	fair := weir.PerHour(1000, algorithm.FixedWindow)
	fair.Name = "fair"
	fair.Adjustment = &weir.Adjustment{}
	fair.Adjustment.RefundOn.Add(weir.NoAnswer, weir.NoAnswer)
	const clients, each = 8, 4
	slots := concurrency(clients)
	lim, err := weir.New(store, weir.Limits{counted, fair, slots}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{ResponseHeaderTimeout: longest}
	whole := longest
	switch {
	case hang && want == 504:
		tr.ResponseHeaderTimeout = 20 * time.Millisecond
	case hang:
		whole = 50 * time.Millisecond
	}
	g, err := gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: lim},
		Default: gateway.Forward{Upstream: upstream, Transport: tr, Timeout: whole},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := start(t, g, false)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				code, err := ask(client, srv.URL)
				for code == 429 { // the slot of this client's last request
					code, err = ask(client, srv.URL)
				}
				// On a busy machine its time may be up before the answer begins.
				if late := want == cut && hang && code == 504; code != want && !late {
					t.Errorf("got %d, %v, want %d", code, err, want)
				}
			}
		})
	}
	wg.Wait()
	client.CloseIdleConnections()
	srv.Close() // waits for the handlers
	tr.CloseIdleConnections()
	up.end()

	req := lim.Acquire()
	defer lim.Recycle(req)
	req.Domain, req.Verb = "api", weir.Peek
	req.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}
	if _, err := lim.Decide(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{"counted": 1000 - clients*each, "fair": 1000 - clients*each, "conc": clients}
	if refunded {
		left["fair"] = 1000
	}
	for _, op := range req.Ops() {
		if got := op.Decision.Remaining; got != left[op.Limit.Name] {
			t.Errorf("%s has %d left, want %d", op.Limit.Name, got, left[op.Limit.Name])
		}
	}
}

// ask returns the status of an answer that came whole, or 0.
func ask(client *http.Client, url string) (int, error) {
	res, err := client.Post(url, "text/plain", strings.NewReader("body"))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if problem := strings.Contains(string(body), `"detail":"the upstream `); res.StatusCode >= 500 && len(body) > 0 && !problem {
		return 0, fmt.Errorf("not clear: %s", body)
	}
	if res.StatusCode == 200 && string(body) != "well" {
		return 0, errors.New("a part was passed off as the whole")
	}
	return res.StatusCode, nil
}

// TestTooLargeIsHeard: who sends too much, and listens only when all is sent, is
// told so and not cut off.
func TestTooLargeIsHeard(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{
		MaxBody: 1000, Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, // not reached
	}})
	for _, size := range []int{1001, 100 << 10, 6 << 20} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// Slower than net/http waits before it closes.
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size)
		for part := range 7 {
			n := size / 7
			if part == 6 {
				n = size - 6*n
			}
			if _, err := io.WriteString(conn, strings.Repeat("x", n)); err != nil {
				t.Fatalf("%d bytes: cut off in part %d: %v", size, part, err)
			}
			if size > 1<<20 {
				<-time.After(100 * time.Millisecond)
			}
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		body, err := io.ReadAll(res.Body)
		if problemOf(t, res, string(body), 413); err != nil {
			t.Error(err)
		}
	}
}

// TestKeptConnection: after an answer that came before the body was read, the
// client's next request is served all the same.
func TestKeptConnection(t *testing.T) {
	ln := servertest.Listen(t)
	ln.Close()
	dead := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: dead}})
	for _, body := range []string{"small", strings.Repeat("x", 1<<20)} {
		for _, chunked := range []bool{false, true} {
			for range 20 {
				var r io.Reader = strings.NewReader(body)
				if chunked {
					r = io.MultiReader(r)
				}
				res, err := http.Post(srv.URL, "text/plain", r)
				if err != nil {
					t.Fatalf("%d bytes, chunked %v: %v", len(body), chunked, err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 502 {
					t.Errorf("got %d, %v", res.StatusCode, err)
				}
				res.Body.Close()
				if small := len(body) < 100; small && !chunked && res.Close {
					t.Error("the connection was given up for a small body")
				}
			}
		}
	}
}

// TestEarlyAnswerOverHTTP2: an upstream that answers without reading ends its
// request, and not the others on the client's connection.
func TestEarlyAnswerOverHTTP2(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }), false)
	upstream, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	upstream.Scheme = "h2c"
	srv := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: upstream}})
	client := speaking(t, "h2c")
	body := strings.Repeat("x", 1<<20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				res, err := client.Post(srv.URL, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Errorf("the connection failed: %v", err)
					return
				}
				if res.Body.Close(); res.StatusCode != 403 {
					t.Errorf("got %d, want 403", res.StatusCode)
				}
			}
		})
	}
	wg.Wait()
}

// An upstream whose certificate nobody trusts, or that does not speak TLS, has not
// broken off: whoever reads the answer should look for the right thing.
func TestUpstreamsThatAreNotSecure(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, to := range []string{secure.URL, "https" + strings.TrimPrefix(plain.URL, "http")} {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		toEach(t, nil, gateway.Forward{Upstream: u}).ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
		if rec.Code != 502 || !strings.Contains(rec.Body.String(), "no secure connection to the upstream can be made") {
			t.Errorf("%s: %d %s", to, rec.Code, rec.Body)
		}
	}
}

// TestEachUpstreamIsLogged: one that fails all the time does not hide another.
func TestEachUpstreamIsLogged(t *testing.T) {
	var said strings.Builder
	g := toEach(t, slog.New(slog.NewTextHandler(&said, nil)), dead, dead)
	for _, path := range []string{"/0", "/0", "/0", "/1", "/0"} {
		rec := httptest.NewRecorder()
		if g.ServeHTTP(rec, httptest.NewRequest("GET", path, nil)); rec.Code != 502 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	for _, name := range []string{"upstream0", "upstream1"} {
		if n := strings.Count(said.String(), "upstream=http://"+name+".example"); n != 1 {
			t.Errorf("%s was logged %d times:\n%s", name, n, said.String())
		}
	}
}

// An upstream that is away is told of once, with what is answered meanwhile, and once when
// it is back.
func TestFamilyUpstreamOutage(t *testing.T) {
	u, err := url.Parse(fmt.Sprintf("http://127.0.0.1:%d", servertest.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	g := toEach(t, slog.New(slog.NewTextHandler(&said, nil)), gateway.Forward{Upstream: u})
	ask := func(want int) {
		t.Helper()
		rec := httptest.NewRecorder()
		if g.ServeHTTP(rec, httptest.NewRequest("GET", "/0", nil)); rec.Code != want {
			t.Errorf("%d, not %d", rec.Code, want)
		}
	}
	for range 20 {
		ask(502)
	}
	ln, err := net.Listen("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go srv.Serve(ln)
	for range 20 {
		ask(200)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "unavailable; allowed requests get 502") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "upstream recovered") {
		t.Errorf("%s", said.String())
	}
}

// deadTransport is an upstream that cannot be reached.
type deadTransport struct{}

func (deadTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

var dead = gateway.Forward{Transport: deadTransport{}}

// toEach returns a gateway without limits whose i-th upstream has the path /i, all
// paths if it is the only one.
func toEach(t *testing.T, logger *slog.Logger, forward ...gateway.Forward) *gateway.Gateway {
	t.Helper()
	lim, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt := gateway.Options{Limits: httplimit.Options{Limiter: lim}, Log: logger}
	for i, f := range forward {
		if f.Upstream == nil {
			f.Upstream = &url.URL{Scheme: "http", Host: fmt.Sprintf("upstream%d.example", i)}
		}
		r := gateway.Route{Forward: f}
		if len(forward) > 1 {
			r.Path = fmt.Sprintf("/%d", i)
		}
		opt.Routes = append(opt.Routes, r)
	}
	g, err := gateway.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
