package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/memory"
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
	limits = append(limits, settled(5, weir.Settlement{RefundOn: codes(101)})...)
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
	limits := append(concurrency(1), settled(5, weir.Settlement{CountOn: codes(401), RefundOn: codes(weir.NoAnswer)})...)
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

// hung is a store that answers no more once it is told so.
type hung struct {
	weir.Store
	hangs atomic.Bool
}

func (s *hung) Take(ctx context.Context, ops []weir.Op) error {
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Take(ctx, ops)
}

// TestStoreHangs: a store that hangs holds up the end of a request for a bounded
// time, and its renewals pile up nowhere.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := append(concurrency(1), settled(5, weir.Settlement{RefundOn: codes(200)})...)
		limits[0].Period = 9 * time.Second
		store := &hung{Store: bubbled(t, nil).Store()}
		lim, err := weir.New(store, limits, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			store.hangs.Store(true)
			<-time.After(4 * time.Second) // a renewal is under way since a second
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		// Five seconds each to settle and to release; the renewal ends meanwhile.
		if took := time.Since(from); took != 14*time.Second {
			t.Errorf("it took %s, want 14s", took)
		}
		store.hangs.Store(false)
		<-time.After(9 * time.Second)
		d, err := lim.Decide(t.Context(), &weir.Request{Lease: "next", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}})
		if err != nil || !d.Allowed() {
			t.Errorf("after the lease's time: %v %v", d, err)
		}
	})
}

// bubbled returns a limiter whose store runs on the time of a synctest bubble.
func bubbled(t *testing.T, rules weir.Rules) *weir.Limiter {
	t.Helper()
	store := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() }})
	t.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// TestLeaseIsRenewed: a request that outlasts its lease still counts, and
// leaves nothing behind.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := concurrency(1)
		limits[0].Period = 9 * time.Second
		lim := bubbled(t, limits)
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(next http.HandlerFunc) int {
			w := httptest.NewRecorder()
			m.Handler(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code
		}
		status := serve(func(http.ResponseWriter, *http.Request) {
			for range 100 {
				<-time.After(time.Second)
				if n := left(t, lim, "192.0.2.1"); n != 0 {
					t.Fatalf("%d left: the lease was lost", n)
				}
			}
		})
		if status != 200 {
			t.Errorf("got %d", status)
		}
		<-time.After(4 * time.Second)
		if n := left(t, lim, "192.0.2.1"); n != 1 {
			t.Errorf("%d left after the request: it was renewed once more", n)
		}
	})
}

// failing is a store that fails while it is told to.
type failing struct {
	weir.Store
	fail atomic.Bool
	// late fails after the work was done, as over a network.
	late  atomic.Bool
	calls atomic.Int64
}

func (s *failing) Take(ctx context.Context, ops []weir.Op) error {
	s.calls.Add(1)
	if s.late.Load() {
		_ = s.Store.Take(ctx, ops)
		return errors.New("too late")
	}
	if s.fail.Load() {
		return errors.New("away")
	}
	return s.Store.Take(ctx, ops)
}

// TestStoreAnswersTooLate: a request that passes without a decision has nothing
// to settle, whatever its ops say.
func TestStoreAnswersTooLate(t *testing.T) {
	store := &failing{Store: clocked.New(t)}
	store.late.Store(true)
	lim, err := weir.New(store, append(concurrency(1), settled(5, weir.Settlement{RefundOn: codes(200)})...), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: lim, OnError: func(http.ResponseWriter, *http.Request, error) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Body.String() != "hello" || store.calls.Load() != 1 {
		t.Errorf("got %s after %d calls", w.Body, store.calls.Load())
	}
	tr := transport(t, lim, ok, httplimit.TransportOptions{OnError: func(*http.Request, error) error { return nil }})
	if _, err := send(t, tr, api); err != nil || store.calls.Load() != 2 {
		t.Errorf("outgoing: %v after %d calls", err, store.calls.Load())
	}
}

// TestRenewalOutlivesAStoreThatFails: a lease whose renewal failed once is
// renewed the next time.
func TestRenewalOutlivesAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := concurrency(1)
		limits[0].Period = 9 * time.Second
		store := &failing{Store: bubbled(t, nil).Store()}
		lim, err := weir.New(store, limits, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			store.fail.Store(true)
			<-time.After(4 * time.Second) // the renewal after 3 s fails
			store.fail.Store(false)
			<-time.After(10 * time.Second)
			if n := left(t, lim, "192.0.2.1"); n != 0 {
				t.Errorf("%d left: the lease was lost", n)
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if n := left(t, lim, "192.0.2.1"); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

// recording is a store that notes how many ops each call has.
type recording struct {
	weir.Store
	mu    sync.Mutex
	calls []int
}

func (s *recording) Take(ctx context.Context, ops []weir.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, len(ops))
	return s.Store.Take(ctx, ops)
}

func (s *recording) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := fmt.Sprint(s.calls)
	s.calls = nil
	return calls
}

// TestNothingIsLeftOver: a visit that ended, by whatever way, asks the store for
// nothing any more, and nor does the next one for its sake.
func TestNothingIsLeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recording{Store: bubbled(t, nil).Store()}
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
	synctest.Test(t, func(t *testing.T) {
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

// queue lets 20 a second pass, one after the other.
func queue(burst int64) weir.Limits {
	return weir.Limits{&weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 20, Period: time.Second, Burst: burst}}
}

// TestDelay: who may pass later does, and at the right time.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, queue(10)), MaxWaiting: 3, MaxDelay: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		type result struct {
			code  int
			after time.Duration
			retry string
		}
		results := make(chan result, 6)
		for range 6 {
			go func() {
				w := httptest.NewRecorder()
				m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				results <- result{w.Code, time.Since(from), w.Header().Get("Retry-After")}
			}()
		}
		got := map[result]int{}
		for range 6 {
			got[<-results]++
		}
		// One at once, three wait, and the others are refused and give their
		// places back.
		want := map[result]int{{200, 0, ""}: 1, {429, 0, "1"}: 2,
			{200, 50 * time.Millisecond, ""}: 1, {200, 100 * time.Millisecond, ""}: 1, {200, 150 * time.Millisecond, ""}: 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		for range 5 { // one after the other, there is always room to wait
			w := httptest.NewRecorder()
			if m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 200 {
				t.Errorf("then: got %d", w.Code)
			}
		}
	})
}

// TestDelayTooLong: who would wait longer than MaxDelay is refused, and leaves
// the queue.
func TestDelayTooLong(t *testing.T) {
	store := clocked.New(t)
	s := &site{t: t, store: store}
	h := s.limited(queue(20), httplimit.Options{MaxDelay: 10 * time.Millisecond}, http.HandlerFunc(hello))
	f := func(status int, retry string) {
		t.Helper()
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != status || w.Header().Get("Retry-After") != retry {
			t.Errorf("got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	}
	f(200, "")
	for range 50 { // each gives its place back, so that the head alone is in the way
		f(429, "1")
	}
	store.Advance(50 * time.Millisecond)
	f(200, "")
}

// TestHangUpWhileWaiting: who leaves the queue gives the place back.
func TestHangUpWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Hour, Burst: 1}
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, weir.Limits{l}), MaxDelay: 2 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Handler(http.HandlerFunc(hello))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		for range 3 { // there is one place
			ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			if w.Body.Len() > 0 || ctx.Err() == nil {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			hangUp()
		}
	})
}

// TestWaitingIsNotUnderWay: who is held back takes no room on the node, and
// needs it afterwards.
func TestWaitingIsNotUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh, err := shed.New(shed.Options{InFlight: shed.InFlightOptions{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, queue(10)), Shed: sh})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(next http.HandlerFunc) int {
			w := httptest.NewRecorder()
			m.Handler(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code
		}
		serve(hello)
		waited := make(chan int)
		go func() { waited <- serve(hello) }()
		synctest.Wait() // it waits for 50 ms
		var place shed.Place
		if !sh.Enter(&place, 0) {
			t.Error("who waits takes the room")
		}
		if got := <-waited; got != 503 {
			t.Errorf("without room after the wait: got %d", got)
		}
		place.Leave()
		if got := serve(hello); got != 200 {
			t.Errorf("then: got %d", got)
		}
	})
}
