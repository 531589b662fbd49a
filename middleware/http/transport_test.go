package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
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

// trip is a http.RoundTripper.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers is a third party that answers with status, header fields and body.
func answers(r *http.Request, status int, body string, fields ...string) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func ok(r *http.Request) (*http.Response, error) { return answers(r, 200, "hello") }

// transport returns a transport on lim to base.
func transport(t testing.TB, lim *weir.Limiter, base trip, opt httplimit.TransportOptions) *httplimit.Transport {
	t.Helper()
	opt.Limiter, opt.Base = lim, base
	tr, err := httplimit.NewTransport(opt)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// send sends a request to the URL and reads all of the answer.
func send(t testing.TB, tr http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	return res, err
}

// isLimited checks that err is a refusal by limit, and how long it is for.
func isLimited(t testing.TB, err error, limit string, retry time.Duration) {
	t.Helper()
	limited, ok := errors.AsType[*httplimit.Limited](err)
	if !ok || limited.Limit != limit || limited.RetryAfter != retry {
		t.Errorf("got %+v, want refused by %q for %s", err, limit, retry)
	}
}

const api = "https://api.example/v1"

// TestTransportWaits: what is too much now is sent as soon as it may be.
func TestTransportWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lim := bubbled(t, weir.Limits{weir.PerMinute(6, algorithm.TokenBucket)}) // one in 10 s
		tr := transport(t, lim, ok, httplimit.TransportOptions{MaxWait: 25 * time.Second})
		from := time.Now()
		var after []time.Duration
		for range 8 {
			if _, err := send(t, tr, api); err != nil {
				t.Fatal(err)
			}
			after = append(after, time.Since(from))
		}
		if want := "[0s 0s 0s 0s 0s 0s 10s 20s]"; fmt.Sprint(after) != want {
			t.Errorf("sent after %v, want %s", after, want)
		}
		if _, err := send(t, tr, "https://other.example"); err != nil || time.Since(from) != 20*time.Second {
			t.Errorf("another host: %v after %s", err, time.Since(from))
		}
	})
}

// TestTransportRefuses: at once, whatever it is that makes the wait too long.
func TestTransportRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lim := bubbled(t, permin(1))
		from := time.Now()
		f := func(maxWait time.Duration, ctx context.Context, url string, cost int64, limit string, retry time.Duration) {
			t.Helper()
			sent := 0
			tr := transport(t, lim, func(r *http.Request) (*http.Response, error) { sent++; return ok(r) },
				httplimit.TransportOptions{MaxWait: maxWait, Cost: func(*http.Request) int64 { return cost }})
			body := &closing{Reader: strings.NewReader("asked")}
			r, err := http.NewRequestWithContext(ctx, "POST", url, body)
			if err != nil {
				t.Fatal(err)
			}
			before := r.Clone(ctx)
			res, err := tr.RoundTrip(r)
			isLimited(t, err, limit, retry)
			if res != nil || sent != 0 || body.closed != 1 || time.Since(from) != 0 {
				t.Errorf("answer %v, %d sent, body closed %d times, after %s", res, sent, body.closed, time.Since(from))
			}
			before.Body = r.Body
			if !reflect.DeepEqual(before, r) {
				t.Error("the request was changed")
			}
		}
		if _, err := send(t, transport(t, lim, ok, httplimit.TransportOptions{}), api); err != nil {
			t.Fatal(err)
		}
		left := time.Minute - time.Duration(time.Now().UnixMicro()%60e6)*time.Microsecond
		f(left-time.Second, t.Context(), api, 1, "permin", left)
		f(-1, t.Context(), api, 1, "permin", left)
		f(time.Hour, t.Context(), api, 2, "permin", weir.Never)
		soon, stop := context.WithTimeout(t.Context(), left-time.Second)
		defer stop()
		f(time.Hour, soon, api, 1, "permin", left)
		f(-1, t.Context(), "https://API.example:443/", 1, "permin", left)
	})
}

type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// TestTransportWaitEndsWithItsContext: the context's error, and nothing stays
// charged.
func TestTransportWaitEndsWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lim := bubbled(t, queue(10))
		tr := transport(t, lim, ok, httplimit.TransportOptions{MaxWaiting: 1})
		if _, err := send(t, tr, api); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", api, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, err := tr.RoundTrip(r)
			ended <- err
		}()
		synctest.Wait()
		// It waits: there is no room for another to.
		if _, err := send(t, tr, api); true {
			isLimited(t, err, "queue", 100*time.Millisecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		from := time.Now()
		if _, err := send(t, tr, api); err != nil || time.Since(from) != 50*time.Millisecond {
			t.Errorf("%v after %s: places were not given back", err, time.Since(from))
		}
	})
}

// TestTransportStoreDown: the store's error, unless the hook says otherwise.
func TestTransportStoreDown(t *testing.T) {
	store := clocked.New(t)
	store.Fail = errors.New("disk on fire")
	lim, err := weir.New(store, settled(1, weir.Adjustment{Per: 1}), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, transport(t, lim, ok, httplimit.TransportOptions{}), api); !errors.Is(err, store.Fail) {
		t.Errorf("got %v", err)
	}
	tr := transport(t, lim, ok, httplimit.TransportOptions{OnError: func(_ *http.Request, err error) error { return nil }})
	if res, err := send(t, tr, api); err != nil || res.StatusCode != 200 {
		t.Errorf("let pass: got %v, %v", res, err)
	}
	mine := errors.New("mine")
	tr = transport(t, lim, ok, httplimit.TransportOptions{OnError: func(*http.Request, error) error { return mine }})
	if _, err := send(t, tr, api); err != mine {
		t.Errorf("got %v", err)
	}
}

// TestTransportLease: a place is held until the body has come to its end, by
// whatever way.
func TestTransportLease(t *testing.T) {
	lim, err := weir.New(clocked.New(t), concurrency(1), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	free := func() bool { return left(t, lim, "api.example") == 1 }
	do := func(base trip) *http.Response {
		t.Helper()
		if !free() {
			t.Fatal("the place is held")
		}
		r, err := http.NewRequest("GET", api, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport(t, lim, base, httplimit.TransportOptions{MaxWait: -1}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := do(ok)
	if free() {
		t.Error("with an open body the place is free")
	}
	res.Body.Close()
	if res.Body.Close(); !free() {
		t.Error("after Close the place is held")
	}
	res = do(ok)
	if _, err := io.ReadAll(res.Body); err != nil || !free() {
		t.Errorf("at its end: %v, free %v", err, free())
	}
	res.Body.Close()
	res = do(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	if res.Body != http.NoBody || !free() {
		t.Errorf("without a body: %T, free %v", res.Body, free())
	}
	broken := errors.New("broken")
	res = do(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), failingReader{broken})), Request: r}, nil
	})
	if _, err := io.ReadAll(res.Body); !errors.Is(err, broken) || !free() {
		t.Errorf("broken off: %v, free %v", err, free())
	}
	r, err := http.NewRequest("GET", api, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport(t, lim, func(*http.Request) (*http.Response, error) { return nil, broken }, httplimit.TransportOptions{}).RoundTrip(r); !errors.Is(err, broken) || !free() {
		t.Errorf("no answer: %v, free %v", err, free())
	}
	func() {
		defer func() {
			if recover() == nil || !free() {
				t.Errorf("after a panic the place is free: %v", free())
			}
		}()
		_, _ = transport(t, lim, func(*http.Request) (*http.Response, error) { panic("a bug") }, httplimit.TransportOptions{}).RoundTrip(r)
	}()
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// TestTransportWaitsForAPlace: not as long as a lease lives, but until one is
// given back.
func TestTransportWaitsForAPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := transport(t, bubbled(t, concurrency(1)), ok, httplimit.TransportOptions{})
		r, err := http.NewRequestWithContext(t.Context(), "GET", api, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() { res.Body.Close() })
		from := time.Now()
		if _, err := send(t, tr, api); err != nil || time.Since(from) > 4*time.Second || time.Since(from) < 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(from))
		}
		res, err = tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		from = time.Now()
		if _, err := send(t, tr, api); err == nil || time.Since(from) > 10*time.Second || time.Since(from) < 8*time.Second {
			t.Errorf("%v after %s, want a refusal after MaxWait", err, time.Since(from))
		}
	})
}

// TestTransportSettles by the third party's answer.
func TestTransportSettles(t *testing.T) {
	lim := func(s weir.Adjustment) *weir.Limiter {
		l, err := weir.New(clocked.New(t), settled(1000, s), weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	f := func(name string, s weir.Adjustment, base trip, spent int64) {
		t.Helper()
		l := lim(s)
		_, _ = send(t, transport(t, l, base, httplimit.TransportOptions{}), api)
		if got := 1000 - left(t, l, "api.example"); got != spent {
			t.Errorf("%s: %d spent, want %d", name, got, spent)
		}
	}
	refund := weir.Adjustment{RefundOn: codes(503, weir.NoAnswer)}
	f("counts", refund, ok, 1)
	f("refunded", refund, func(r *http.Request) (*http.Response, error) { return answers(r, 503, "sorry") }, 0)
	f("no answer", refund, func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 0)
	f("bytes", weir.Adjustment{Per: 1}, ok, 5)
	header := weir.Adjustment{Header: "X-Tokens"}
	f("header", header, func(r *http.Request) (*http.Response, error) { return answers(r, 200, "hello", "X-Tokens", "42") }, 42)
	f("trailer", header, func(r *http.Request) (*http.Response, error) {
		res, err := answers(r, 200, "hello")
		res.Trailer = http.Header{"X-Tokens": {"43"}}
		return res, err
	}, 43)
	f("not said", header, ok, 1)

	// What was canceled here may have been counted there.
	l := lim(refund)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", api, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport(t, l, func(r *http.Request) (*http.Response, error) {
		cancel()
		return nil, r.Context().Err()
	}, httplimit.TransportOptions{}).RoundTrip(r); !errors.Is(err, context.Canceled) || left(t, l, "api.example") != 999 {
		t.Errorf("canceled: %v, %d left", err, left(t, l, "api.example"))
	}
}

// TestClient: through http.Client, over the wire: redirects, its timeout, and
// upgraded connections.
func TestClient(t *testing.T) {
	var hits atomic.Int64
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/slow":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/upgrade":
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			fmt.Fprint(conn, strings.ToUpper(line))
		default:
			hello(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(stop) })
	host := strings.TrimPrefix(srv.URL, "http://")
	store := clocked.New(t)
	lim, err := weir.New(store, append(permin(4), concurrency(2)...), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	tr, err := httplimit.NewTransport(httplimit.TransportOptions{Limiter: lim, Base: base, MaxWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: tr}
	peek := func() (rate, places int64) {
		r := &weir.Request{Verb: weir.Peek, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "host", Value: host}}}}}
		if _, err := lim.Decide(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		return r.Ops()[0].Decision.Remaining, r.Ops()[1].Decision.Remaining
	}
	check := func(what string, rate, places int64) {
		t.Helper()
		if r, p := peek(); r != rate || p != places {
			t.Errorf("%s: %d left and %d places, want %d and %d", what, r, p, rate, places)
		}
	}
	res, err := client.Get(srv.URL + "/redirect")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "hello" || res.Request.URL.Path != "/" {
		t.Errorf("got %q, %v of %s", b, err, res.Request.URL)
	}
	res.Body.Close()
	check("a redirect and where to", 2, 2)

	r, err := http.NewRequest("GET", srv.URL+"/upgrade", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	if res, err = client.Do(r); err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v", res, err)
	}
	conn := res.Body.(io.ReadWriteCloser)
	fmt.Fprintln(conn, "hello")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HELLO\n" {
		t.Errorf("got %q, %v", line, err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d, %v", n, err)
	}
	check("an open connection, of which one way is closed", 1, 1)
	if c, ok := conn.(interface{ CloseWrite() error }); !ok {
		t.Error("the connection cannot be closed one way")
	} else if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	conn.Close()
	check("a closed connection", 1, 2)

	client.Timeout = 20 * time.Millisecond
	if _, err := client.Get(srv.URL + "/slow"); !os.IsTimeout(err) {
		t.Errorf("got %v", err)
	}
	check("a request that timed out", 0, 2)
	before := hits.Load()
	_, err = client.Get(srv.URL)
	isLimited(t, err, "permin", 40*time.Second)
	if hits.Load() != before {
		t.Error("it was sent")
	}
}

// TestTransportIsExact: 64 at once send as many as the limit.
func TestTransportIsExact(t *testing.T) {
	lim, err := weir.New(clocked.New(t), permin(500), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sent, refused atomic.Int64
	tr := transport(t, lim, func(r *http.Request) (*http.Response, error) { sent.Add(1); return ok(r) }, httplimit.TransportOptions{MaxWait: -1})
	done := make(chan struct{})
	for range 64 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 20 {
				if _, err := send(t, tr, api); err != nil {
					refused.Add(1)
				}
			}
		}()
	}
	for range 64 {
		<-done
	}
	if sent.Load() != 500 || refused.Load() != 64*20-500 {
		t.Errorf("%d sent, %d refused", sent.Load(), refused.Load())
	}
}
