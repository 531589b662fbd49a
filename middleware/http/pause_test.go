package httplimit_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestPause: a third party that asks to be left alone is, and its quota is not
// spent meanwhile.
func TestPause(t *testing.T) {
	f := func(name string, status int, want time.Duration, fields ...string) {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				first := true
				lim := bubbled(t, weir.Limits{weir.PerDay(100, algorithm.TokenBucket)})
				tr := transport(t, lim, func(r *http.Request) (*http.Response, error) {
					if first {
						first = false
						return answers(r, status, "", fields...)
					}
					return ok(r)
				}, httplimit.TransportOptions{MaxWait: -1, MaxPause: 5 * time.Minute})
				if _, err := send(t, tr, api); err != nil {
					t.Fatal(err)
				}
				_, err := send(t, tr, api)
				if want == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				isLimited(t, err, "", want)
				if _, err := send(t, tr, "https://other.example"); err != nil {
					t.Errorf("another host: %v", err)
				}
				if n := left(t, lim, "api.example"); n != 99 {
					t.Errorf("%d left, want 99: a refused request was charged", n)
				}
				<-time.After(want)
				if _, err := send(t, tr, api); err != nil {
					t.Errorf("after the pause: %v", err)
				}
			})
		})
	}
	const date = "Sat, 01 Jan 2000 00:00:00 GMT" // when a bubble begins
	f("seconds", 429, 7*time.Second, "Retry-After", "7")
	f("unavailable", 503, 7*time.Second, "Retry-After", "7")
	f("of a redirect", 301, 0, "Retry-After", "7")
	f("date", 429, 90*time.Second, "Retry-After", "Sat, 01 Jan 2000 00:01:30 GMT", "Date", date)
	f("date by their clock", 429, 90*time.Second, "Retry-After", "Sat, 01 Jan 2005 00:01:30 GMT", "Date", "Sat, 01 Jan 2005 00:00:00 GMT")
	f("date without theirs", 429, 90*time.Second, "Retry-After", "Sat, 01 Jan 2000 00:01:30 GMT")
	f("date that is over", 429, 0, "Retry-After", "Fri, 31 Dec 1999 00:00:00 GMT")
	f("at most", 429, 5*time.Minute, "Retry-After", "86400")
	f("too large a number", 429, 5*time.Minute, "Retry-After", strings.Repeat("9", 100))
	f("junk", 429, 0, "Retry-After", "-7")
	f("nothing", 429, 0)
	f("field", 200, 30*time.Second, "RateLimit", `"permin";r=0;t=30`)
	f("the longest", 200, 30*time.Second, "RateLimit", `"persec";r=0;t=1, "permin";r=0;t=30`, "RateLimit", `"perhr";r=3;t=60`)
	f("something left", 200, 0, "RateLimit", `"permin";r=1;t=30`)
	f("no time", 200, 0, "RateLimit", `"permin";r=0`)
	f("malformed", 200, 0, "RateLimit", `permin;r=0;t=30`)
	f("one of them malformed", 200, 0, "RateLimit", `"permin";r=0;t=30, "perhr";r=x`)
	f("cached", 200, 0, "RateLimit", `"permin";r=0;t=30`, "Age", "5")
	f("fresh from a cache", 200, 30*time.Second, "RateLimit", `"permin";r=0;t=30`, "Age", "0")
	f("at once wins", 429, 0, "Retry-After", "0", "RateLimit", `"permin";r=0;t=30`)
	f("Retry-After wins", 429, 7*time.Second, "Retry-After", "7", "RateLimit", `"permin";r=0;t=30`)
}

// TestPauseIsNotShortened, and who waits for it is sent when it is over.
func TestPauseIsNotShortened(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		retry := "20"
		tr := transport(t, bubbled(t, permin(100)), func(r *http.Request) (*http.Response, error) {
			return answers(r, 429, "", "Retry-After", retry)
		}, httplimit.TransportOptions{MaxWait: time.Minute})
		r, err := http.NewRequestWithContext(t.Context(), "GET", api, nil)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := tr.RoundTrip(r) // pauses
		if err != nil {
			t.Fatal(err)
		}
		slow.Body.Close()
		from := time.Now()
		retry = "1"
		if _, err := send(t, tr, api); err != nil || time.Since(from) != 20*time.Second {
			t.Errorf("%v after %s", err, time.Since(from))
		}
		if _, err := send(t, tr, api); err != nil || time.Since(from) != 21*time.Second {
			t.Errorf("%v after %s", err, time.Since(from))
		}
	})
}

// TestPauseAsksNobody: the store has nothing to do with it.
func TestPauseAsksNobody(t *testing.T) {
	store := &failing{Store: clocked.New(t)}
	lim, err := weir.New(store, append(permin(5), queue(5)...), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := transport(t, lim, func(r *http.Request) (*http.Response, error) {
		return answers(r, 503, "", "Retry-After", "9")
	}, httplimit.TransportOptions{MaxWait: -1})
	if _, err := send(t, tr, api); err != nil || store.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, store.calls.Load())
	}
	if _, err := send(t, tr, api); err == nil || store.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, store.calls.Load())
	}
}

// TestPauseWhileQueued: who waits for its turn when a pause begins waits for
// that too.
func TestPauseWhileQueued(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		retry := "3"
		tr := transport(t, bubbled(t, queue(5)), func(r *http.Request) (*http.Response, error) {
			if retry == "" {
				return ok(r)
			}
			<-time.After(20 * time.Millisecond)
			res, err := answers(r, 503, "", "Retry-After", retry)
			retry = ""
			return res, err
		}, httplimit.TransportOptions{})
		from := time.Now()
		first := make(chan error)
		go func() {
			_, err := send(t, tr, api)
			first <- err
		}()
		synctest.Wait()
		if _, err := send(t, tr, api); err != nil || time.Since(from) != 3020*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(from))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestNoPause: who does not want to heed anybody need not.
func TestNoPause(t *testing.T) {
	lim, err := weir.New(clocked.New(t), permin(100), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := transport(t, lim, func(r *http.Request) (*http.Response, error) {
		return answers(r, 429, "", "Retry-After", "9")
	}, httplimit.TransportOptions{MaxPause: -1, MaxWait: -1})
	for range 3 {
		if res, err := send(t, tr, api); err != nil || res.StatusCode != 429 {
			t.Errorf("got %v, %v", res, err)
		}
	}
}
