package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// answers is an API in this process.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func answer(status int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("body"))}
}

func newTransport(t *testing.T, opt TransportOptions) *Transport {
	t.Helper()
	tr, err := NewTransport(opt)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func send(t *testing.T, tr *Transport, method, url, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return tr.RoundTrip(r)
}

func TestTransportLeavesAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		sent := 0
		next := answer(200)
		tr := newTransport(t, TransportOptions{Base: answers(func(*http.Request) (*http.Response, error) {
			sent++
			return next, nil
		}), MaxWait: -1})
		f := func(res *http.Response, want time.Duration) {
			t.Helper()
			next, sent = res, 0
			if got, err := send(t, tr, "GET", "http://api.example/", ""); err != nil || got != res {
				t.Fatalf("the answer itself: %v %v", got, err)
			}
			var limited *Limited
			_, err := send(t, tr, "GET", "http://API.example/other", "")
			if want == 0 {
				if err != nil || sent != 2 {
					t.Errorf("%v %v: %v", res.StatusCode, res.Header, err)
				}
				return
			}
			if !errors.As(err, &limited) || limited.RetryAfter != want || limited.Throttled || sent != 1 {
				t.Errorf("%v %v: %v, want %v; %d were sent", res.StatusCode, res.Header, err, want, sent)
			}
			if _, err := send(t, tr, "GET", "http://other.example/", ""); err != nil {
				t.Errorf("another host: %v", err)
			}
			time.Sleep(want)
			next = answer(200)
			if _, err := send(t, tr, "GET", "http://api.example/", ""); err != nil {
				t.Errorf("when it has ended: %v", err)
			}
			time.Sleep(time.Hour)
		}
		s := time.Second
		f(answer(200), 0)
		f(answer(429), 0)
		f(answer(429, "Retry-After", "7"), 7*s)
		f(answer(503, "Retry-After", "7"), 7*s)
		f(answer(500, "Retry-After", "7"), 0)
		f(answer(200, "RateLimit", `"a";r=0;t=9`), 9*s)
		f(answer(200, "RateLimit", `"a";r=1;t=9`), 0)
		f(answer(200, "RateLimit-Remaining", "0", "RateLimit-Reset", "9"), 9*s)
		f(answer(429, "Retry-After", "999999"), time.Hour)
	})
}

func TestTransportWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		tr := newTransport(t, TransportOptions{Base: answers(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				return answer(429, "Retry-After", "8"), nil
			}
			return answer(200), nil
		})})
		start := time.Now()
		if res, err := send(t, tr, "GET", "http://a/", ""); err != nil || res.StatusCode != 429 {
			t.Fatal(res, err)
		}
		done := make(chan error)
		for range 50 {
			go func() {
				_, err := send(t, tr, "GET", "http://a/", "")
				done <- err
			}()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		first, last := at[1].Sub(start), at[50].Sub(start)
		if first < 8*time.Second || last > 10*time.Second || last-first < time.Second {
			t.Errorf("those that waited were sent from %v to %v, want 8 s to 10 s, spread", first, last)
		}
		// Not beyond a deadline, and not for nothing.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		tr.paused.Add("a", time.Now(), 5*time.Second)
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://a/", nil)
		start = time.Now()
		var limited *Limited
		if _, err := tr.RoundTrip(r); !errors.As(err, &limited) || time.Since(start) != 0 {
			t.Errorf("5 s to wait and 3 s left: %v after %v", err, time.Since(start))
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		r, _ = http.NewRequestWithContext(ctx, "GET", "http://a/", nil)
		if _, err := tr.RoundTrip(r); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("canceled after a second: %v after %v", err, time.Since(start))
		}
	})
}

func TestTransportRetries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var bodies []string
		refusals, status := 2, 429
		tr := newTransport(t, TransportOptions{Retries: 2, Base: answers(func(r *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body.Close()
			bodies = append(bodies, string(b))
			if len(bodies) <= refusals {
				return answer(status, "Retry-After", "2"), nil
			}
			return answer(200), nil
		})})
		f := func(method string, body io.Reader, refused, code, want, sent int) {
			t.Helper()
			bodies, refusals, status = nil, refused, code
			r, err := http.NewRequestWithContext(t.Context(), method, "http://a/", body)
			if err != nil {
				t.Fatal(err)
			}
			if r.Body == nil {
				r.Body = http.NoBody
			}
			res, err := tr.RoundTrip(r)
			if err != nil || res.StatusCode != want || len(bodies) != sent {
				t.Errorf("%s refused %d times with %d: %v %v, sent %q", method, refused, code, res, err, bodies)
			}
			for _, b := range bodies {
				if b != bodies[0] {
					t.Errorf("%s was sent as %q", method, bodies)
				}
			}
			time.Sleep(time.Minute)
		}
		f("POST", strings.NewReader("order"), 2, 429, 200, 3)
		f("POST", strings.NewReader("order"), 3, 429, 429, 3)
		f("POST", strings.NewReader("order"), 1, 503, 503, 1) // it may have been served
		f("PUT", strings.NewReader("order"), 1, 503, 200, 2)
		f("GET", nil, 1, 503, 200, 2)
		f("POST", io.MultiReader(strings.NewReader("once")), 1, 429, 429, 1) // cannot be read again
		f("GET", nil, 1, 500, 500, 1)
	})
}

// TestTransportThrottles: an API that refuses without saying for how long.
func TestTransportThrottles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		sent := map[string]int{}
		var fail error
		status := 429
		opt := TransportOptions{Base: answers(func(r *http.Request) (*http.Response, error) {
			sent[r.URL.Host]++
			if r.URL.Host == "good" {
				return answer(404), nil
			}
			return answer(status), fail
		})}
		f := func(most int) {
			t.Helper()
			clear(sent)
			tr := newTransport(t, opt)
			throttled := 0
			for range 1000 {
				for _, url := range []string{"http://bad/", "http://good/"} {
					var limited *Limited
					if _, err := send(t, tr, "GET", url, ""); errors.As(err, &limited) && limited.Throttled && limited.Key == "bad" {
						throttled++
					} else if err != nil && fail == nil {
						t.Fatal(err)
					}
				}
			}
			if sent["good"] != 1000 || sent["bad"] > most || throttled != 1000-sent["bad"] {
				t.Errorf("sent %v, %d were throttled, want %d at most", sent, throttled, most)
			}
		}
		f(100)
		status = 500
		f(100)
		fail = errors.New("connection refused")
		f(100)
		fail, status, opt.NoThrottle = nil, 429, true
		f(1000)
		if sent["bad"] != 1000 {
			t.Errorf("%d of 1000 were sent without a throttle", sent["bad"])
		}
	})
}

func TestTransportKeysAreBounded(t *testing.T) {
	tr := newTransport(t, TransportOptions{Base: answers(func(*http.Request) (*http.Response, error) { return answer(200), nil })})
	for i := range maxThrottles + 100 {
		if _, err := send(t, tr, "GET", fmt.Sprintf("http://h%d/", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tr.throttles); n != maxThrottles {
		t.Errorf("%d keys are kept", n)
	}
}

// TestTransportOfAClient goes through net/http on both sides.
func TestTransportOfAClient(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "hello")
	}))
	defer s.Close()
	h := http.Client{Transport: newTransport(t, TransportOptions{Retries: 1, Base: s.Client().Transport})}
	start := time.Now()
	res, err := h.Post(s.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || string(b) != "hello" || time.Since(start) < time.Second {
		t.Errorf("%q %v after %v", b, err, time.Since(start))
	}
}

func TestTransportOptions(t *testing.T) {
	for _, opt := range []TransportOptions{{MaxWaiting: -1}, {MaxPause: -1}, {Retries: -1}, {Throttle: ThrottleOptions{Ratio: 0.1}}} {
		if _, err := NewTransport(opt); err == nil {
			t.Errorf("%+v was taken", opt)
		}
	}
}
