package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestLeaseEndsWithTheRequest: however it ends, its place is free once the
// handler has returned.
func TestLeaseEndsWithTheRequest(t *testing.T) {
	s := &site{t: t, store: clocked.New(t)}
	ctx, hangUp := context.WithCancel(context.Background())
	var held int64
	h := s.limited(concurrency(3), httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held = 3 - left(t, s.lim, "192.0.2.1")
		switch r.URL.Path {
		case "/abort":
			w.WriteHeader(200)
			panic(http.ErrAbortHandler)
		case "/panic":
			panic("a bug")
		case "/hangup":
			hangUp()
		case "/hijack":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		}
	}))
	for _, path := range []string{"/", "/abort", "/panic", "/hangup", "/hijack", "/"} {
		func() {
			defer func() {
				if got := recover() != nil; got != (path == "/abort" || path == "/panic") {
					t.Errorf("%s: panicked %v", path, got)
				}
			}()
			r := httptest.NewRequest("GET", path, nil)
			h.ServeHTTP(&hijackable{ResponseRecorder: httptest.NewRecorder()}, r.WithContext(ctx))
		}()
		if held != 1 {
			t.Errorf("%s: %d held while it was served", path, held)
		}
		if n := left(t, s.lim, "192.0.2.1"); n != 3 {
			t.Errorf("%s: %d of 3 free after it", path, n)
		}
	}
}

type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, other := net.Pipe()
	other.Close()
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// TestLeaseSurvivesAReload: what was granted by rules that are no more is given
// back all the same.
func TestLeaseSurvivesAReload(t *testing.T) {
	s := &site{t: t, store: clocked.New(t)}
	old := concurrency(1)
	if err := old[0].Compile(); err != nil {
		t.Fatal(err)
	}
	rules := &reloaded{}
	rules.Store(&old)
	h := s.limited(rules, httplimit.Options{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		rules.Store(&weir.Limits{})
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	rules.Store(&old)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 200 {
		t.Errorf("got %d: the place is still held", w.Code)
	}
}

// reloaded are rules that change.
type reloaded struct{ atomic.Pointer[weir.Limits] }

func (r *reloaded) Match(dst []weir.Op, req *weir.Request) []weir.Op { return r.Load().Match(dst, req) }

// TestWebSocket: an upgrade by hand; the place is held until the handler that
// serves the connection returns.
func TestWebSocket(t *testing.T) {
	limits := concurrency(1)
	limits = append(limits, settled(5, weir.Adjustment{RefundOn: codes(101)})...)
	s := newSite(t, limits, httplimit.Options{}, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		for {
			if err := rw.Flush(); err != nil {
				return
			}
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(rw, strings.ToUpper(line))
		}
	})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(conn)
	res, err := http.ReadResponse(from, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v", res, err)
	}
	for range 3 {
		fmt.Fprintln(conn, "hello")
		if line, err := from.ReadString('\n'); err != nil || line != "HELLO\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if res, _ := s.get("/"); res.StatusCode != 429 {
		t.Errorf("beside the connection another got %d", res.StatusCode)
	}
	conn.Close()
	peek := &weir.Request{Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}}
	until(t, func() bool {
		if _, err := s.lim.Decide(context.Background(), peek); err != nil {
			t.Fatal(err)
		}
		return peek.Ops()[0].Decision.Remaining == 1
	})
	if n := peek.Ops()[1].Decision.Remaining; n != 5 {
		t.Errorf("%d left: an upgrade is a 101", n)
	}
}

func codes(cs ...int) (set weir.Codes) {
	for _, c := range cs {
		set.Add(c, c)
	}
	return set
}

// TestHangUp: a client that leaves takes nothing with it, and cannot avoid being
// counted by leaving before the answer.
func TestHangUp(t *testing.T) {
	started := make(chan struct{})
	limits := append(concurrency(1), settled(5, weir.Adjustment{CountOn: codes(401), RefundOn: codes(weir.NoAnswer)})...)
	s := newSite(t, limits, httplimit.Options{}, func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-r.Context().Done()
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	peek := &weir.Request{Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}}
	for i, path := range []string{"/", "/panic"} {
		ctx, hangUp := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := s.Client().Do(r); err == nil {
				res.Body.Close()
				t.Error("answered")
			}
		}()
		<-started
		hangUp()
		<-ended
		until(t, func() bool {
			if _, err := s.lim.Decide(context.Background(), peek); err != nil {
				t.Fatal(err)
			}
			return peek.Ops()[0].Decision.Remaining == 1
		})
		if got, want := peek.Ops()[1].Decision.Remaining, int64(4-i); got != want {
			t.Errorf("%s: %d left, want %d", path, got, want)
		}
	}
}

// TestManyEndings: 64 clients whose requests end in every way, over HTTP/1.1 and
// as streams of one HTTP/2 connection that are reset. What was let through is
// what was charged, and nothing is held in the end.
func TestManyEndings(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { manyEndings(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { manyEndings(t, true) })
}

func manyEndings(t *testing.T, http2 bool) {
	var served atomic.Int64
	limits := append(concurrency(48), weir.PerDay(100_000, algorithm.FixedWindow))
	s := &site{t: t, store: clocked.New(t)}
	s.Server = httptest.NewUnstartedServer(s.limited(limits, httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		switch r.URL.Path {
		case "/abort":
			fmt.Fprint(w, "half of")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/hangup":
			<-r.Context().Done()
		case "/hijack":
			if r.ProtoMajor == 2 {
				return
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		default:
			hello(w, r)
		}
	})))
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	s.Config.ErrorLog = quiet
	if http2 {
		s.Config.Protocols, transport.Protocols = new(http.Protocols), new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	defer s.Close()
	done := make(chan struct{})
	for i := range 64 {
		go func() {
			defer func() { done <- struct{}{} }()
			for j := range 16 {
				path := []string{"/", "/abort", "/hangup", "/hijack"}[(i+j)%4]
				ctx, stop := context.WithCancel(context.Background())
				if path == "/hangup" {
					ctx, stop = context.WithTimeout(context.Background(), time.Duration(1+j)*time.Millisecond)
				}
				r, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
				if err != nil {
					t.Error(err)
				}
				if res, err := transport.RoundTrip(r); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				stop()
			}
		}()
	}
	for range 64 {
		<-done
	}
	peek := &weir.Request{Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}}
	until(t, func() bool {
		if _, err := s.lim.Decide(context.Background(), peek); err != nil {
			t.Fatal(err)
		}
		return peek.Ops()[0].Decision.Remaining == 48
	})
	if spent := 100_000 - peek.Ops()[1].Decision.Remaining; spent != served.Load() || spent < 64 {
		t.Errorf("%d spent, %d served", spent, served.Load())
	}
}

// TestNothingIsLeftOver: a visit that ended, by whatever way, asks the store for
// nothing any more, and nor does the next one for its sake.
func TestNothingIsLeftOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &recording{Store: bubbled(t, weir.Limits{}).Store()}
		lim, err := weir.New(store, append(concurrency(5), queue(10)...), weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim, MaxDelay: 70 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		serve := func() int {
			w := httptest.NewRecorder()
			m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code
		}
		f := func(what, calls string) {
			t.Helper()
			<-time.After(time.Hour)
			synctest.Wait()
			if got := store.taken(); got != calls {
				t.Errorf("%s: calls of %s ops, want %s", what, got, calls)
			}
		}
		serve()
		f("allowed", "[2 1]") // decided, released
		served := make(chan int)
		for range 4 { // at 0, 50, and two would be later than 70 ms
			go func() { served <- serve() }()
		}
		codes := map[int]int{}
		for range 4 {
			codes[<-served]++
		}
		if codes[200] != 2 || codes[429] != 2 {
			t.Errorf("got %v", codes)
		}
		store.taken()
		for range 4 { // whichever of their visits is used again
			serve()
			f("after refusals", "[2 1]")
		}
	})
}

// TestShadowLease: a place that was not taken is not held.
func TestShadowLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := concurrency(1)
		limits[0].Mode.Shadow = true
		lim := bubbled(t, limits)
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		free := func() int64 {
			r := &weir.Request{Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}}
			if _, err := lim.Decide(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			return r.Ops()[0].Decision.Remaining
		}
		serve := func(next http.HandlerFunc) {
			m.Handler(next).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		serve(func(http.ResponseWriter, *http.Request) {
			entered := make(chan struct{})
			go serve(func(http.ResponseWriter, *http.Request) {
				close(entered)
				<-time.After(10 * time.Minute)
			})
			<-entered
			if n := free(); n != 0 {
				t.Errorf("%d free", n)
			}
		})
		<-time.After(5 * time.Minute)
		if n := free(); n != 1 {
			t.Errorf("%d free: who took no place holds one", n)
		}
		<-time.After(time.Hour)
	})
}
