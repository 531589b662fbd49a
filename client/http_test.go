package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func of(key, value string) client.Check {
	return client.Of("shop", weir.Entry{Key: key, Value: value})
}

func must(t *testing.T) func(client.Decision, error) client.Decision {
	return func(d client.Decision, err error) client.Decision {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if d.Degraded {
			t.Fatalf("degraded: %+v", d)
		}
		return d
	}
}

// patient gives the service more time than a busy machine takes.
var patient = client.Options{Budget: 5 * time.Second, Domain: "shop"}

func TestHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	c := to(t, s.addr, patient)
	ctx, ok := t.Context(), must(t)

	t.Run("check", func(t *testing.T) {
		k := of("user", `an"n<é`)
		if d := ok(c.Peek(ctx, k)); !d.Allowed || d.Remaining != 3 || d.ResetAfter != 0 {
			t.Errorf("peek %+v", d)
		}
		k.Cost = 2
		d := ok(c.Check(ctx, k))
		limit := client.Limit{Name: d.Limit.Name, Count: 3, Burst: d.Limit.Burst, Period: time.Minute, Algorithm: "fixed_window"}
		if !d.Allowed || d.Remaining != 1 || *d.Limit != limit || d.ResetAfter <= 0 || d.ResetAfter > time.Minute || d.RetryAfter != 0 {
			t.Errorf("first %+v %+v", d, d.Limit)
		}
		if len(d.Limits) != 1 || d.Limits[0].Role != "enforce" || !d.Limits[0].Charged || d.Limits[0].Cost != 2 {
			t.Errorf("limits %+v", d.Limits)
		}
		d = ok(c.Check(ctx, k))
		if d.Allowed || d.Remaining != 1 || d.RetryAfter <= 0 || d.RetryAfter > time.Minute || d.Source != client.Service {
			t.Errorf("second %+v", d)
		}
		if again := ok(c.Check(ctx, k)); again.Allowed || again.Source != client.Remembered || again.RetryAfter > d.RetryAfter {
			t.Errorf("remembered %+v", again)
		}
		k.Cost = 0
		if d := ok(c.Check(ctx, k)); !d.Allowed || d.Remaining != 0 {
			t.Errorf("the last unit %+v", d)
		}
		k.Cost = 4
		if d := ok(c.Check(ctx, of("user", "x"))); !d.Allowed {
			t.Errorf("another user %+v", d)
		}
		k.Descriptors = of("user", "y").Descriptors
		if d := ok(c.Check(ctx, k)); d.Allowed || d.RetryAfter != weir.Never {
			t.Errorf("what can never pass %+v", d)
		}
		if d := ok(c.Check(ctx, of("nobody", "limits"))); !d.Allowed || d.Limit != nil || d.Remaining != -1 {
			t.Errorf("no limit %+v", d)
		}
	})
	t.Run("shouldAllow", func(t *testing.T) {
		if d, err := c.ShouldAllow(ctx, "123"); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
	})
	t.Run("batch", func(t *testing.T) {
		ks := []client.Check{of("user", "b"), of("user", "b"), of("user", "b"), of("user", "b"), of("tokens", "b")}
		ds, err := c.CheckAll(ctx, ks)
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		for _, d := range ds {
			got = append(got, d.Allowed)
		}
		if want := []bool{true, true, true, false, true}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if d, err := c.CheckAll(ctx, ks); err != nil || d[0].Source != client.Remembered || d[4].Source != client.Service {
			t.Errorf("again %+v %v", d, err)
		}
		most := slices.Repeat([]client.Check{of("free", "x")}, 1000)
		if ds, err = c.CheckAll(ctx, most); err != nil || len(ds) != 1000 {
			t.Errorf("%d answers to 1000 checks: %v", len(ds), err)
		}
	})
	t.Run("reserve", func(t *testing.T) {
		k := of("tokens", "r")
		k.Cost = 40
		left := func() int64 { return ok(c.Peek(ctx, k)).Remaining }
		r, err := c.Reserve(ctx, k)
		if err != nil || !r.Decision.Allowed || r.Handle == "" || time.Until(r.Expires) <= 0 || left() != 60 {
			t.Fatalf("%+v %v, %d left", r, err, left())
		}
		if s, err := c.Commit(ctx, r, 15); err != nil || s != (client.Settlement{Reserved: 40, Actual: 15}) || left() != 85 {
			t.Errorf("commit %+v %v, %d left", s, err, left())
		}
		var wrong *client.Error
		if _, err := c.Cancel(ctx, r); !errors.As(err, &wrong) || wrong.Status != 409 {
			t.Errorf("settled twice: %v", err)
		}
		r, err = c.Reserve(ctx, k)
		if err != nil || left() != 45 {
			t.Fatalf("%v, %d left", err, left())
		}
		if _, err := c.Cancel(ctx, r); err != nil || left() != 85 {
			t.Errorf("cancel %v, %d left", err, left())
		}
		k.Cost = 200
		if r, err := c.Reserve(ctx, k); err != nil || r.Decision.Allowed || r.Handle != "" {
			t.Errorf("too much: %+v %v", r, err)
		}
		if _, err := c.Reserve(ctx, of("slots", "r")); !errors.As(err, &wrong) || wrong.Status != 422 {
			t.Errorf("a concurrency limit: %v", err)
		}
		if _, err := c.Commit(ctx, client.Reservation{Handle: "forged"}, 1); !errors.As(err, &wrong) || wrong.Status != 400 {
			t.Errorf("a forged handle: %v", err)
		}
	})
	t.Run("acquire", func(t *testing.T) {
		l, d, err := c.Acquire(ctx, of("slots", "a"))
		if ok(d, err); !d.Allowed {
			t.Fatalf("%+v", d)
		}
		if _, d, err := c.Acquire(ctx, of("slots", "a")); ok(d, err).Allowed {
			t.Errorf("two hold one place: %+v", d)
		}
		if _, d, err := c.Renew(ctx, l); !ok(d, err).Allowed {
			t.Errorf("renew %+v", d)
		}
		// Whoever waits gets it when it is released.
		waited := make(chan error, 1)
		go func() {
			k := of("slots", "a")
			k.Lease = "waiter"
			_, err := c.Wait(ctx, k)
			waited <- err
		}()
		if _, err := c.Release(ctx, l); err != nil {
			t.Error(err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		var wrong *client.Error
		if _, err := c.Check(ctx, of("slots", "b")); !errors.As(err, &wrong) || !strings.Contains(wrong.Detail, "lease") {
			t.Errorf("a concurrency limit without a lease: %v", err)
		}
	})
	t.Run("wait", func(t *testing.T) {
		start := time.Now()
		for range 2 {
			if d := ok(c.Wait(ctx, of("quick", "w"))); !d.Allowed {
				t.Errorf("%+v", d)
			}
		}
		if took := time.Since(start); took < time.Second || took > 30*time.Second {
			t.Errorf("two of one a second took %v", took)
		}
	})
	t.Run("queue", func(t *testing.T) {
		start := time.Now()
		var delays []time.Duration
		for i := range 4 {
			d := ok(c.Check(ctx, of("queue", "q")))
			delays = append(delays, d.Delay)
			// What it took to ask has been waited for.
			most := time.Duration(i) * 100 * time.Millisecond
			if d.Delay < most-time.Since(start)-10*time.Millisecond || d.Delay > most {
				t.Errorf("delays %v after %s", delays, time.Since(start))
			}
		}
		ok(c.Wait(ctx, of("queue", "q")))
		if took := time.Since(start); took < 350*time.Millisecond {
			t.Errorf("the fifth of ten a second waited until %v", took)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		for _, k := range []client.Check{{Domain: "shop"}, client.Of("shop"), of("", "x"), of(strings.Repeat("k", 257), "x")} {
			var wrong *client.Error
			if d, err := c.Check(ctx, k); k.Descriptors == nil && !errors.As(err, &wrong) {
				t.Errorf("%+v: %+v %v", k, d, err)
			}
		}
	})
	if n := c.Counters(); n.Opened+n.Failures+n.Timeouts+n.Busy+n.Allowed != 0 {
		t.Errorf("counters of a service that was well: %+v", n)
	}
	var published map[string]any
	if b, err := json.Marshal(c.Counters()); err != nil || json.Unmarshal(b, &published) != nil || len(published) != reflect.TypeFor[client.Counters]().NumField() {
		t.Errorf("counters as JSON: %s %v", b, err)
	}
}

// asks makes calls one after another until stop, and returns the longest and
// how many the service decided.
func asks(t *testing.T, c *client.Client, n int) (longest time.Duration, served int) {
	t.Helper()
	for range n {
		start := time.Now()
		d, err := c.Check(t.Context(), of("free", "x"))
		if err != nil || !d.Allowed {
			t.Fatalf("%+v %v", d, err)
		}
		longest = max(longest, time.Since(start))
		if d.Source == client.Service {
			served++
		}
	}
	return longest, served
}

func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	c := to(t, s.addr, client.Options{Budget: 20 * time.Second, Probe: 50 * time.Millisecond, MaxProbe: 100 * time.Millisecond})
	if _, served := asks(t, c, 20); served != 20 {
		t.Fatalf("%d of 20 were served", served)
	}
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, served := asks(t, c, 1000); served != 0 {
		t.Errorf("%d of 1000 were served by a process that is dead", served)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("1000 checks without a service took %v", took)
	}
	n := c.Counters()
	if n.Opened != 1 || n.Allowed != 1000 || !n.Open || n.Broken < 900 {
		t.Errorf("counters %+v", n)
	}
	serve(t, s.addr)
	servertest.Await(t, "the service to be asked again", func() bool {
		_, served := asks(t, c, 1)
		return served == 1
	})
	if _, served := asks(t, c, 20); served != 20 {
		t.Errorf("%d of 20 were served after it came back", served)
	}
}

func TestServerStandsStill(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	c := to(t, s.addr, client.Options{Budget: 500 * time.Millisecond, Probe: 50 * time.Millisecond, MaxProbe: 100 * time.Millisecond})
	servertest.Await(t, "a call to be answered", func() bool {
		_, served := asks(t, c, 1)
		return served == 1
	})
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "it to stand still", func() bool {
		_, served := asks(t, c, 1)
		return served == 0
	})
	start := time.Now()
	longest, served := asks(t, c, 300)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if served != 0 {
		t.Errorf("%d were served by a process that stands still", served)
	}
	if longest > 15*time.Second {
		t.Errorf("one call took %v with a budget of 500 ms", longest)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("300 calls took %v", took)
	}
	if n := c.Counters(); n.Timeouts < 5 || n.Opened < 1 || n.InFlight != 0 {
		t.Errorf("counters %+v", n)
	}
	servertest.Await(t, "the service to be asked again", func() bool {
		_, served := asks(t, c, 1)
		return served == 1
	})
}

func TestServerIsSlow(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	proxy := servertest.NewProxy(t, s.addr)
	c := to(t, proxy.Addr, client.Options{Budget: time.Second, Probe: 50 * time.Millisecond, MaxProbe: 100 * time.Millisecond})
	if _, served := asks(t, c, 5); served != 5 {
		t.Fatalf("%d of 5 were served", served)
	}
	proxy.Delay(servertest.Replies, 30*time.Millisecond)
	if longest, served := asks(t, c, 5); served != 5 || longest < 30*time.Millisecond {
		t.Errorf("%d of 5 were served by a slow service, the longest took %v", served, longest)
	}
	proxy.Delay(servertest.Replies, 3*time.Second)
	if longest, served := asks(t, c, 30); served != 0 || longest > 30*time.Second {
		t.Errorf("%d of 30 were served within the budget, the longest took %v", served, longest)
	}
	proxy.Delay(servertest.Replies, 0)
	servertest.Await(t, "the service to be asked again", func() bool {
		_, served := asks(t, c, 1)
		return served == 1
	})
	proxy.Reset()
	if _, served := asks(t, c, 10); served < 9 {
		t.Errorf("a connection that was cut cost %d calls", 10-served)
	}
	proxy.CutAfter(100)
	asks(t, c, 1)
	proxy.CutAfter(-1)
	servertest.Await(t, "the service to be asked again", func() bool {
		_, served := asks(t, c, 1)
		return served == 1
	})
}

func TestWhatIsNotTheService(t *testing.T) {
	answers := func(status int, header http.Header, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range header {
				w.Header()[k] = v
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	problem := http.Header{"Content-Type": {"application/problem+json"}}
	f := func(addr, want string) {
		t.Helper()
		opt := client.Options{Budget: 2 * time.Second}
		if want == "deadline" {
			opt.Budget = 100 * time.Millisecond
		}
		c := to(t, addr, opt)
		d, err := c.Check(t.Context(), of("user", "x"))
		if err != nil || !d.Allowed || !d.Degraded || d.Source != client.Policy || d.Cause == nil || !strings.Contains(d.Cause.Error(), want) {
			t.Errorf("want %q: %+v %v", want, d, err)
		}
	}
	f(answers(200, nil, "<html>sign in</html>"), "not from Weir")
	f(answers(200, nil, "{}"), "without an outcome")
	f(answers(200, nil, `{"allowed":true,"retry_after":-1}`), "no number of seconds")
	f(answers(200, nil, `{"allowed":true,"limits":[`+strings.Repeat(" ", 2<<20)+"]}"), "more than 1048576 bytes")
	f(answers(302, http.Header{"Location": {"http://127.0.0.1:1/"}}, ""), "302")
	f(answers(404, nil, "not found"), "404")
	f(answers(404, problem, `{"detail":"no such path"}`), "no such path")
	f(answers(403, problem, `{"title":"no"}`), "no (status 403)")
	f(answers(400, nil, "a proxy's"), "400")
	f(answers(500, nil, ""), "500")
	f(answers(503, http.Header{"Retry-After": {"7"}}, ""), "left alone for 7s")
	f(answers(429, http.Header{"Retry-After": {"7"}}, ""), "left alone for 7s")
	f(silent(t, ""), "deadline")
	f(silent(t, "SSH-2.0-x\r\n"), "malformed HTTP")
	f(silent(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"), "deadline")
	f("127.0.0.1:1", "refused")

	c := to(t, answers(400, problem, `{"detail":"#/cost: no"}`), client.Options{Budget: 2 * time.Second})
	var wrong *client.Error
	if _, err := c.Check(t.Context(), of("user", "x")); !errors.As(err, &wrong) || wrong.Detail != "#/cost: no" {
		t.Errorf("the caller's fault: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for _, u := range []string{"localhost:8080", "ftp://x", "http://", "http://x/?a=1", "http://x/#a", "://", "http://[::1"} {
		if _, err := client.NewHTTP(client.HTTPOptions{URL: u}); err == nil {
			t.Errorf("%s was taken", u)
		}
	}
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`{"allowed":true}`))
	}))
	defer s.Close()
	w, err := client.NewHTTP(client.HTTPOptions{URL: s.URL + "/limits/", Header: http.Header{"Authorization": {"Bearer abc"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Decide(context.Background(), []client.Check{of("a", "b")}, false); err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/limits/v1/check" || got.Header.Get("Authorization") != "Bearer abc" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", got.URL, got.Header)
	}
}
