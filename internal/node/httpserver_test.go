package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// start serves h and returns where, how to begin the drain, and its outcome.
func start(t *testing.T, h http.Handler, conf config.HTTP, drain config.Drain, wrap func(net.Listener) net.Listener) (addr string, end func(), ended chan error) {
	t.Helper()
	ln, err := listenOn("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = ln.Addr().String()
	if wrap != nil {
		ln = wrap(ln)
	}
	s := newHTTPServer(h, conf, nil, drain, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(cancel)
	return addr, cancel, ended
}

var quick = config.HTTP{ReadHeaderTimeout: 100 * time.Millisecond, ReadTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 4096}

// patient is for load: no client is slow, but on a busy machine it may look so.
var patient = config.HTTP{ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 4096}

// A request that is being answered when the drain begins is answered in full,
// and its connection is told to end.
func TestDrainAnswersWhatWasBegun(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	addr, end, ended := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		fmt.Fprint(w, "done")
	}), patient, config.Drain{Timeout: time.Minute}, nil)
	got := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + addr)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		got <- fmt.Sprint(string(body), err, res.Close)
	}()
	<-entered
	end()
	select {
	case err := <-ended:
		t.Fatalf("ended with a request in flight: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if s := <-got; s != "done<nil> true" {
		t.Errorf("got %q, want the whole answer and that it is the connection's last", s)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A connection that speaks another protocol is waited for as long as requests
// are, and then closed: its handler ends, and the drain succeeds.
func TestDrainUpgraded(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		t.Run(fmt.Sprintf("client leaves %v", leaves), func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(gone)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				stop := context.AfterFunc(r.Context(), func() { conn.Close() })
				defer stop()
				fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				_, _ = io.Copy(conn, conn) // echoes until somebody closes
			})
			drain, words := config.Drain{Timeout: 3 * time.Second}, 1
			if leaves {
				drain.Timeout, words = time.Minute, 30 // for longer than idle connections are left
			}
			addr, end, ended := start(t, h, patient, drain, nil)
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			r := bufio.NewReader(conn)
			for line := ""; line != "\r\n"; {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			end()
			// It goes on while the server drains.
			for range words {
				select {
				case err := <-ended:
					t.Fatalf("it was not waited for: %v", err)
				case <-time.After(50 * time.Millisecond):
				}
				fmt.Fprint(conn, "still here\n")
				if line, err := r.ReadString('\n'); line != "still here\n" {
					t.Fatalf("got %q, %v", line, err)
				}
			}
			if leaves {
				conn.Close()
			} else if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the client saw %v, want the end", err)
			}
			<-gone
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A request that does not end is cut at the timeout, and the error says so.
func TestDrainEndsInTime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	addr, end, ended := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}), patient, config.Drain{Timeout: 50 * time.Millisecond}, nil)
	go func() {
		if res, err := http.Get("http://" + addr); err == nil {
			res.Body.Close()
		}
	}()
	<-entered
	end()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "1 connections cut") || !strings.Contains(err.Error(), "--drain-timeout") {
		t.Errorf("got %v", err)
	}
}

// Clients that keep their connections, and obey Connection: close, see every
// request answered though the server drains under load.
func TestDrainUnderLoadDropsNothing(t *testing.T) {
	var served atomic.Int64
	addr, end, ended := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		fmt.Fprint(w, "ok")
	}), patient, config.Drain{Timeout: time.Minute}, nil)
	const clients = 32
	var wg sync.WaitGroup
	var sent, answered atomic.Int64
	for range clients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			r := bufio.NewReader(c)
			for {
				sent.Add(1)
				if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"); err != nil {
					t.Errorf("send: %v", err)
					return
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("a request was dropped: %v", err)
					return
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("answered %s", res.Status)
				}
				answered.Add(1)
				if res.Close {
					return
				}
			}
		})
	}
	servertest.Await(t, "the load", func() bool { return served.Load() >= 10*clients })
	end()
	wg.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if sent.Load() != answered.Load() || answered.Load() != served.Load() {
		t.Errorf("%d sent, %d served, %d answered", sent.Load(), served.Load(), answered.Load())
	}
}

// The same over HTTP/2, where connections end by GOAWAY: whatever a client
// could send is answered, until it can no longer connect.
func TestDrainUnderHTTP2LoadDropsNothing(t *testing.T) {
	var served atomic.Int64
	addr, end, ended := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		served.Add(1)
		fmt.Fprint(w, r.Proto)
	}), patient, config.Drain{Timeout: time.Minute}, nil)
	var wg sync.WaitGroup
	for range 4 {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(tr.CloseIdleConnections)
		// Four streams on each connection.
		for range 4 {
			wg.Go(func() {
				for {
					res, err := (&http.Client{Transport: tr}).Post("http://"+addr, "text/plain", strings.NewReader("x"))
					if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
						return
					}
					if err != nil {
						t.Errorf("a request was dropped: %v", err)
						return
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || string(body) != "HTTP/2.0" {
						t.Errorf("answered %q, %v", body, err)
						return
					}
				}
			})
		}
	}
	servertest.Await(t, "the load", func() bool { return served.Load() >= 200 })
	end()
	wg.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A drain does not wait for connections that say nothing.
func TestDrainCutsIdleConnections(t *testing.T) {
	addr, end, ended := start(t, http.NotFoundHandler(), patient, config.Drain{Timeout: 10 * time.Second}, nil)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Who sends a request letter by letter, or one of endless headers, is cut off.
func TestSlowAndLargeRequestsAreCut(t *testing.T) {
	fast, _, _ := start(t, http.NotFoundHandler(), quick, config.Drain{}, nil)
	slow, _, _ := start(t, http.NotFoundHandler(), patient, config.Drain{}, nil)
	f := func(addr, request, want string) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The server may have answered and closed before all is sent.
		_, _ = io.WriteString(c, request)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("still open after a minute")
		}
		if !strings.HasPrefix(string(answer), want) {
			t.Errorf("answered %.60q, want %q", answer, want)
		}
	}
	f(fast, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ", "")
	f(fast, "", "")
	f(slow, "GET / HTTP/1.1\r\nHost: h\r\nX-Large: "+strings.Repeat("x", 16<<10)+"\r\n\r\n", "HTTP/1.1 431")
	f(slow, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "HTTP/1.1 404")
}

// HTTP/2 is spoken without encryption too.
func TestCleartextHTTP2(t *testing.T) {
	addr, _, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}), patient, config.Drain{}, nil)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "HTTP/2.0" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
}

// Streams whose clients reset them before they are answered leave nothing behind.
func TestResetStreamsAreForgotten(t *testing.T) {
	conf := patient
	conf.StallTimeout = time.Hour
	entered := make(chan context.CancelFunc, 1)
	left := make(chan struct{})
	addr, _, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { left <- struct{}{} }()
		(<-entered)()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "too late") // nobody listens
	}), conf, config.Drain{}, nil)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	const streams = 2000
	var before uint64
	for i := range 2 * streams {
		if i == streams {
			before = held()
		}
		ctx, cancel := context.WithCancel(t.Context())
		entered <- cancel
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := tr.RoundTrip(r); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, %v", res, err)
		}
		<-left
	}
	if now := held(); now > before+streams {
		t.Errorf("%d objects more for %d streams", now-before, streams)
	}
}

// Connections above the bound wait until one before them ends.
func TestConnectionsAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	addr, _, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- struct{}{}
			<-release
		}
	}), patient, config.Drain{}, func(ln net.Listener) net.Listener { return listen.Limit(ln, listen.Limits{Max: 2}) })
	ask := func(c net.Conn, path string) error {
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			return err
		}
		_, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	idle := []net.Conn{dial(), dial()}
	for _, c := range idle {
		if err := ask(c, "/"); err != nil {
			t.Fatal(err)
		}
	}
	third := dial()
	if err := ask(third, "/"); err != nil {
		t.Fatalf("beside two idle connections: %v", err)
	}
	// One of the two has made room. Which is idle for longer is not known here: a response is
	// read before its connection becomes idle.
	idle = slices.DeleteFunc(idle, func(c net.Conn) bool { return ask(c, "/") != nil })
	if len(idle) != 1 {
		t.Fatalf("%d of two idle connections are still served beside the third, not one", len(idle))
	}
	// A connection with a request under way is not closed, and a further one waits.
	waits := make(chan error, 2)
	for _, c := range []net.Conn{idle[0], third} {
		go func() { waits <- ask(c, "/wait") }()
	}
	for range 2 {
		select {
		case <-arrived:
		case err := <-waits:
			t.Fatalf("a request was not served: %v", err)
		}
	}
	fourth := make(chan error, 1)
	c := dial()
	go func() { fourth <- ask(c, "/") }()
	select {
	case err := <-fourth:
		t.Fatalf("a third connection was served beside two requests under way: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release <- struct{}{}
	if err := <-fourth; err != nil {
		t.Errorf("after a request was answered: %v", err)
	}
	release <- struct{}{}
	for range 2 {
		if err := <-waits; err != nil {
			t.Errorf("a request that was under way: %v", err)
		}
	}
}
