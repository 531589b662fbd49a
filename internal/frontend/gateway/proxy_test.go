package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// problemOf checks that res is a problem document of the given status.
func problemOf(t *testing.T, res *http.Response, body string, status int) {
	t.Helper()
	var p struct{ Status int }
	if err := json.Unmarshal([]byte(body), &p); err != nil || res.StatusCode != status || p.Status != status ||
		res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s %s, want a problem of status %d", res.StatusCode, res.Header.Get("Content-Type"), body, status)
	}
}

func concurrency(count int64) *weir.Limit {
	return &weir.Limit{Name: "conc", Algorithm: algorithm.Concurrency, Count: count, Period: time.Minute}
}

func TestUpstreamDown(t *testing.T) {
	ln := servertest.Listen(t)
	dead, err := url.Parse("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	// Two of four pass and fail, so the concurrency limit of one shows that each
	// gave its lease back.
	limits := weir.Limits{weir.PerMinute(2, algorithm.FixedWindow), concurrency(1)}
	srv := serve(t, clocked.New(t), limits, nil, gateway.Options{Default: gateway.Forward{Upstream: dead}})
	for range 2 {
		res, body := get(t, srv.URL)
		problemOf(t, res, body, 502)
		if res.Header.Get("X-RateLimit-Remaining") == "" || res.Header.Get("RateLimit") == "" {
			t.Errorf("the limits are not told: %v", res.Header)
		}
	}
	res, body := get(t, srv.URL)
	problemOf(t, res, body, 429)
}

func TestUpstreamTooSlow(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) { <-done },
		gateway.Options{Default: gateway.Forward{Transport: &http.Transport{ResponseHeaderTimeout: 20 * time.Millisecond}}})
	res, body := get(t, srv.URL)
	problemOf(t, res, body, 504)
}

func TestStoreDown(t *testing.T) {
	store := clocked.New(t)
	store.Fail = errors.New("disk on fire")
	srv := serve(t, store, weir.Limits{weir.PerMinute(2, algorithm.FixedWindow)}, func(w http.ResponseWriter, r *http.Request) {
		t.Error("forwarded")
	}, gateway.Options{})
	res, body := get(t, srv.URL)
	problemOf(t, res, body, 503)
	if strings.Contains(body, "fire") {
		t.Errorf("the store's words are told: %s", body)
	}
}

// TestConcurrencyIsReleased: whatever way a request ends, the next one passes.
func TestConcurrencyIsReleased(t *testing.T) {
	store := clocked.New(t)
	started, release := make(chan struct{}), make(chan struct{})
	gone := make(chan struct{})
	srv := serve(t, store, weir.Limits{concurrency(1)}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hold":
			started <- struct{}{}
			<-release
		case "/abort":
			fmt.Fprint(w, "half of")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/hangup":
			started <- struct{}{}
			<-r.Context().Done()
			close(gone)
		}
	}, gateway.Options{})

	held := make(chan int)
	go func() {
		res, err := http.Get(srv.URL + "/hold")
		if err != nil {
			t.Error(err)
			held <- 0
			return
		}
		res.Body.Close()
		held <- res.StatusCode
	}()
	<-started
	res, body := get(t, srv.URL+"/")
	problemOf(t, res, body, 429)
	if got := res.Header.Get("RateLimit-Policy"); got != `"conc";q=1;qu="concurrent-requests"` {
		t.Errorf("policy: %s", got)
	}
	close(release)
	if s := <-held; s != 200 {
		t.Errorf("the first got %d", s)
	}
	free := func(after string) {
		t.Helper()
		// The answer can be here before the lease is given back.
		for deadline := time.Now().Add(5 * time.Second); ; {
			res, _ := get(t, srv.URL+"/")
			if res.StatusCode == 200 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s the lease is still held", after)
			}
		}
	}
	free("an answer")

	if res, err := http.Get(srv.URL + "/abort"); err == nil {
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("the answer was whole")
		}
		res.Body.Close()
	}
	free("an upstream that broke off")

	ctx, hangUp := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/hangup", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			t.Error("answered")
		}
	}()
	<-started
	hangUp()
	<-ended
	<-gone
	free("a client that hung up")
}

// TestLeaseIsRenewed: a request that outlasts its lease still counts.
func TestLeaseIsRenewed(t *testing.T) {
	store := clocked.New(t)
	started, release := make(chan struct{}), make(chan struct{})
	conc := concurrency(1)
	conc.Period = 90 * time.Millisecond // renewed every 30
	srv := serve(t, store, weir.Limits{conc}, func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-release
	}, gateway.Options{})
	first := make(chan error)
	go func() {
		res, err := http.Get(srv.URL)
		if err == nil {
			res.Body.Close()
		}
		first <- err
	}()
	<-started
	for range 4 {
		before := store.Takes.Load()
		for store.Takes.Load() == before { // until it is renewed
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("never renewed")
			}
		}
		store.Advance(60 * time.Millisecond)
	}
	if res, _ := get(t, srv.URL); res.StatusCode != 429 {
		t.Errorf("after 240 ms a second request got %d, want 429", res.StatusCode)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func queue(burst int64) weir.Limits {
	l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 20, Period: time.Second, Burst: burst}
	return weir.Limits{l}
}

func ok(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }

func TestDelay(t *testing.T) {
	srv := serve(t, clocked.New(t), queue(2), ok, gateway.Options{Limits: httplimit.Options{MaxWaiting: 1}}) // one after the other
	from := time.Now()
	for i := range 3 { // the store's clock stands still, so all are of one instant
		if res, body := get(t, srv.URL); res.StatusCode != 200 || body != "ok" {
			t.Errorf("request %d: got %d %s", i, res.StatusCode, body)
		}
	}
	// One at once, one after 50 ms, one after 100 ms.
	if d := time.Since(from); d < 150*time.Millisecond {
		t.Errorf("three took %s, want 150ms at least", d)
	}
	res, body := get(t, srv.URL)
	problemOf(t, res, body, 429)
}

func TestDelayTooLong(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, queue(20), ok, gateway.Options{Limits: httplimit.Options{MaxDelay: 10 * time.Millisecond}})
	get(t, srv.URL)
	for range 50 { // each gives its place back, so none but the queue's head is in the way
		res, body := get(t, srv.URL)
		problemOf(t, res, body, 429)
		if res.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: %q, want 1", res.Header.Get("Retry-After"))
		}
	}
	store.Advance(50 * time.Millisecond)
	if res, _ := get(t, srv.URL); res.StatusCode != 200 {
		t.Errorf("got %d when the queue is empty", res.StatusCode)
	}
}

func TestTooManyWaiting(t *testing.T) {
	srv := serve(t, clocked.New(t), queue(20), ok, gateway.Options{Limits: httplimit.Options{MaxWaiting: 1}})
	get(t, srv.URL)
	const n = 5
	got := make(chan int, n)
	for range n {
		go func() {
			res, err := http.Get(srv.URL)
			if err != nil {
				t.Error(err)
				got <- 0
				return
			}
			res.Body.Close()
			got <- res.StatusCode
		}()
	}
	codes := map[int]int{}
	for range n {
		codes[<-got]++
	}
	if codes[200] < 1 || codes[200]+codes[429] != n {
		t.Errorf("got %v", codes)
	}
}

// TestHangUpWhileWaiting: whoever leaves the queue gives the place back.
func TestHangUpWhileWaiting(t *testing.T) {
	store := clocked.New(t)
	l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Hour, Burst: 1}
	srv := serve(t, store, weir.Limits{l}, ok, gateway.Options{Limits: httplimit.Options{MaxDelay: 2 * time.Hour}})
	get(t, srv.URL)
	for range 3 { // there is one place
		ctx, hangUp := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := store.Takes.Load()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
				t.Errorf("answered %d", res.StatusCode)
			}
		}()
		until(t, func() bool { return store.Takes.Load() == before+1 }) // queued
		hangUp()
		<-ended
		until(t, func() bool { return store.Takes.Load() == before+2 }) // given back
	}
}

// until waits for f to hold.
func until(t *testing.T, f func() bool) {
	t.Helper()
	servertest.Await(t, "what the test asks for", f)
}

// TestClaimsAreNotBelieved: headers neither choose the counter nor reach the
// upstream.
func TestClaimsAreNotBelieved(t *testing.T) {
	var saw http.Header
	var host string
	srv := serve(t, clocked.New(t), weir.Limits{weir.PerMinute(3, algorithm.FixedWindow)}, func(w http.ResponseWriter, r *http.Request) {
		saw, host = r.Header, r.Host
	}, gateway.Options{})
	claims := "X-Forwarded-For: 192.0.2.%d\r\nx_forwarded_for: 192.0.2.%[1]d\r\nX-FORWARDED_host: evil\r\nForwarded: for=192.0.2.%[1]d\r\nX-Real_IP: 192.0.2.%[1]d\r\nX-Real-IP: 192.0.2.%[1]d\r\nX-Forwarded-Port: 1\r\nX-My_App: kept\r\n"
	status := func(i int) string {
		t.Helper()
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: api.example\r\n"+claims+"\r\n", i)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line[9:12]
	}
	for i := range 3 {
		if got := status(i); got != "200" {
			t.Errorf("request %d: got %s", i, got)
		}
	}
	if got := status(9); got != "429" {
		t.Errorf("another claimed address: got %s, want 429", got)
	}
	var names []string
	for k := range saw {
		names = append(names, k)
	}
	slices.Sort(names)
	if want := []string{"User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-My_app"}; !slices.Equal(names, want) {
		// User-Agent is the transport's own.
		without := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == "User-Agent" })
		if !slices.Equal(names, without) {
			t.Errorf("the upstream saw %q, want %q", names, want)
		}
	}
	if saw.Get("X-Forwarded-For") != "127.0.0.1" || saw.Get("X-Forwarded-Host") != "api.example" || host == "api.example" {
		t.Errorf("the upstream saw %v, host %s", saw, host)
	}
}

// TestUpstreamLimitsAreKept: two limiters in a row both speak.
func TestUpstreamLimitsAreKept(t *testing.T) {
	l := weir.PerMinute(10, algorithm.FixedWindow)
	l.Name = "ours"
	srv := serve(t, clocked.New(t), weir.Limits{l}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Policy", `"theirs";q=5;w=1`)
		w.Header().Set("RateLimit", `"theirs";r=1;t=1`)
		w.Header().Set("X-RateLimit-Limit", "5")
		w.Header().Set("X-RateLimit-Remaining", "1")
	}, gateway.Options{})
	res, _ := get(t, srv.URL)
	h := res.Header
	if !slices.Equal(h.Values("RateLimit"), []string{`"theirs";r=1;t=1`, `"ours";r=9;t=40`}) || len(h.Values("RateLimit-Policy")) != 2 ||
		!slices.Equal(h.Values("X-RateLimit-Limit"), []string{"5"}) || !slices.Equal(h.Values("X-RateLimit-Remaining"), []string{"1"}) {
		t.Errorf("got %v", h)
	}
}

// TestBigBodies: what is forwarded is forwarded whole, both ways and at the
// same time.
func TestBigBodies(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}, gateway.Options{})
	sent := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	res, err := http.Post(srv.URL, "", strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || string(got) != sent {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(sent))
	}
}

// TestEarlyAnswer: an upstream that refuses a body without reading it is heard.
func TestEarlyAnswer(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{concurrency(1)}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}, gateway.Options{})
	for i := range 5 {
		var res *http.Response
		until(t, func() bool { // the lease of the one before may still be held
			var err error
			if res, err = http.Post(srv.URL, "", strings.NewReader(strings.Repeat("x", 200<<10))); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			return res.StatusCode != 429
		})
		if res.StatusCode != 413 {
			t.Errorf("post %d: got %d, want 413", i, res.StatusCode)
		}
	}
}

// TestAnswerIsNotTouched: nothing is guessed or added but the limits.
func TestAnswerIsNotTouched(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/typed" {
			w.Header().Set("Content-Type", "text/x-own")
		} else {
			w.Header()["Content-Type"] = nil
		}
		w.Header()["Date"] = nil
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.WriteHeader(203)
		fmt.Fprint(w, "<html>")
	}, gateway.Options{})
	for path, kind := range map[string][]string{"/": nil, "/typed": {"text/x-own"}} {
		res, body := get(t, srv.URL+path)
		res.Header.Del("Date") // every server adds one
		want := http.Header{"Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"6"}}
		if kind != nil {
			want["Content-Type"] = kind
		}
		if res.StatusCode != 203 || body != "<html>" || fmt.Sprint(res.Header) != fmt.Sprint(want) {
			t.Errorf("%s: got %d %v %s, want %v", path, res.StatusCode, res.Header, body, want)
		}
	}
}

func TestUpstreamPath(t *testing.T) {
	var saw string
	srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) { saw = r.URL.String() }, gateway.Options{})
	base, err := url.Parse("http://" + srv.Listener.Addr().String() + "/base/")
	if err != nil {
		t.Fatal(err)
	}
	front := serve(t, clocked.New(t), weir.Limits{}, nil, gateway.Options{Default: gateway.Forward{Upstream: base}})
	get(t, front.URL+"/a%7Eb/?c=d;e")
	if saw != "/base/a%7Eb/?c=d;e" {
		t.Errorf("the upstream saw %s", saw)
	}
}

func TestOptions(t *testing.T) {
	lim, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := func(upstream string, opt gateway.Options, want string) {
		t.Helper()
		if upstream != "" {
			if opt.Default.Upstream, err = url.Parse(upstream); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := gateway.New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", upstream, err, want)
		}
	}
	f("", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "no upstream")
	f("127.0.0.1", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "must be an http, https or h2c URL")
	f("ftp://127.0.0.1", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "must be an http, https or h2c URL")
	f("http:///x", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "must be an http, https or h2c URL")
	f("http://ann:secret@127.0.0.1", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "xxxxx@127.0.0.1")
	f("http://127.0.0.1?x=1", gateway.Options{Limits: httplimit.Options{Limiter: lim}}, "must not have a query")
	f("http://127.0.0.1", gateway.Options{}, "no limiter")
	f("http://127.0.0.1", gateway.Options{Limits: httplimit.Options{Limiter: lim}, ClientFields: []string{"X-Forwarded-For"}}, "identity.proxies.trusted")
	f("http://127.0.0.1", gateway.Options{Limits: httplimit.Options{Limiter: lim, MaxDelay: -1}}, "must not be negative")
}
