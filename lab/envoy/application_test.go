package envoy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// application is what stands behind Envoy: HTTP/1.1, HTTP/2, WebSockets that echo, and
// gRPC with a trailer. Safe for concurrent use.
type application struct {
	addr string
	mu   sync.Mutex
	seen []*http.Request
	// hold is closed when requests for /hold may end.
	hold chan struct{}
}

// serveApplication starts one.
func serveApplication(t testing.TB) *application {
	t.Helper()
	a := &application{hold: make(chan struct{})}
	rpc := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("x-behind", "yes")); err != nil {
			return nil, err
		}
		return next(ctx, in)
	}))
	healthpb.RegisterHealthServer(rpc, health.NewServer())
	ln := servertest.Listen(t)
	a.addr = ln.Addr().String()
	srv := &http.Server{Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen = append(a.seen, r)
		a.mu.Unlock()
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			rpc.ServeHTTP(w, r)
		case r.Header.Get("Upgrade") == "websocket":
			echo(t, w)
		case r.URL.Path == "/hold":
			<-a.hold
		default:
			if n := r.Header.Get("X-Use"); n != "" { // what a request turns out to cost
				w.Header().Set("X-Used", n)
			}
			fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
		}
	})
	go func() { _ = srv.Serve(ln) }() // it ends with the listener
	t.Cleanup(func() { srv.Close() })
	return a
}

// count returns how many requests have come.
func (a *application) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// requests returns what has come, and forgets it.
func (a *application) requests() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// echo answers a WebSocket by what it is sent.
func echo(t testing.TB, w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, rw) // until the client goes
}

// webSocket opens one at a path, sends text on it, and returns the status and what came
// back of the text.
func (p *proxy) webSocket(t testing.TB, path string) (status int, back string) {
	t.Helper()
	conn := p.dial(t)
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return res.StatusCode, ""
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(in, text); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// raw sends bytes as they are and returns the status that comes back, 0 for none.
func (p *proxy) raw(t testing.TB, text string) int {
	t.Helper()
	if res := p.exchange(t, text); res != nil {
		return res.StatusCode
	}
	return 0
}

// exchange sends bytes as they are and returns the head of the response, nil for none.
func (p *proxy) exchange(t testing.TB, text string) *http.Response {
	t.Helper()
	conn := p.dial(t)
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		return nil
	}
	return res
}
