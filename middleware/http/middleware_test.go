package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// site is a handler behind limits, on a server.
type site struct {
	t     *testing.T
	store *clocked.Store
	lim   *weir.Limiter
	*httptest.Server
}

// newSite starts next behind limits on loopback, over HTTP/1.1. What goes
// wrong behind a handler that panics is not logged.
func newSite(t *testing.T, rules weir.Rules, opt httplimit.Options, next http.HandlerFunc) *site {
	t.Helper()
	s := &site{t: t, store: clocked.New(t)}
	h := s.limited(rules, opt, next)
	s.Server = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// limited returns next behind rules.
func (s *site) limited(rules weir.Rules, opt httplimit.Options, next http.Handler) http.Handler {
	s.t.Helper()
	var err error
	if s.lim, err = weir.New(s.store, rules, weir.Options{}); err != nil {
		s.t.Fatal(err)
	}
	opt.Limiter = s.lim
	m, err := httplimit.New(opt)
	if err != nil {
		s.t.Fatal(err)
	}
	return m.Handler(next)
}

// get fetches the path and returns the answer and its body.
func (s *site) get(path string) (*http.Response, string) {
	s.t.Helper()
	res, err := s.Client().Get(s.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(b)
}

// left returns what is left to the tests' own address.
func (s *site) left() int64 { return left(s.t, s.lim, "127.0.0.1") }

func left(t testing.TB, lim *weir.Limiter, key string) int64 {
	t.Helper()
	d, err := lim.Take(context.Background(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// until waits for f to hold.
func until(t testing.TB, f func() bool) {
	t.Helper()
	servertest.Await(t, "what the test asks for", f)
}

// lines returns the fields of h, one on a line, sorted, without Date.
func lines(h http.Header) string {
	var out []string
	for k, vs := range h {
		for _, v := range vs {
			if k != "Date" {
				out = append(out, k+": "+v)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func permin(count int64) weir.Limits {
	l := weir.PerMinute(count, algorithm.FixedWindow)
	l.Name = "permin"
	return weir.Limits{l}
}

// settled is permin, settled as s says.
func settled(count int64, s weir.Adjustment) weir.Limits {
	ls := permin(count)
	ls[0].Adjustment = &s
	return ls
}

func concurrency(count int64) weir.Limits {
	return weir.Limits{&weir.Limit{Name: "conc", Algorithm: algorithm.Concurrency, Count: count, Period: time.Minute}}
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// TestEveryHeader: allowed and refused, byte for byte.
func TestEveryHeader(t *testing.T) {
	s := newSite(t, permin(1), httplimit.Options{}, hello)
	res, body := s.get("/")
	want := `Content-Length: 5
Content-Type: text/plain; charset=utf-8
Ratelimit-Policy: "permin";q=1;w=60
Ratelimit: "permin";r=0;t=40
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0`
	if got := lines(res.Header); res.StatusCode != 200 || body != "hello" || got != want {
		t.Errorf("got %d %q\n%s\nwant\n%s", res.StatusCode, body, got, want)
	}
	res, body = s.get("/")
	want = `Cache-Control: no-store
Content-Length: 228
Content-Type: application/problem+json
Ratelimit-Policy: "permin";q=1;w=60
Ratelimit: "permin";r=0;t=40
Retry-After: 40
X-Content-Type-Options: nosniff
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Retry-After: 40`
	const wantBody = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
		`"detail":"the limit permin is exhausted; try again in 40 seconds","violated-policies":["permin"],"retry_after":40}`
	if got := lines(res.Header); res.StatusCode != 429 || got != want || body != wantBody {
		t.Errorf("got %d\n%s\n%s\nwant\n%s\n%s", res.StatusCode, got, body, want, wantBody)
	}
}

// TestExactUnderConcurrency: 64 at once, no more and no fewer than the limit.
func TestExactUnderConcurrency(t *testing.T) {
	const clients, each, limit = 64, 20, 700
	var served atomic.Int64
	s := newSite(t, permin(limit), httplimit.Options{}, func(w http.ResponseWriter, _ *http.Request) { served.Add(1) })
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	codes := make(chan int, clients*each)
	for range clients {
		go func() {
			for range each {
				res, err := transport.RoundTrip(httptest.NewRequest("GET", s.URL, nil))
				if err != nil {
					t.Error(err)
					codes <- 0
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				codes <- res.StatusCode
			}
		}()
	}
	got := map[int]int{}
	for range clients * each {
		got[<-codes]++
	}
	if served.Load() != limit || got[200] != limit || got[429] != clients*each-limit {
		t.Errorf("%d served, answers %v: want %d", served.Load(), got, limit)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	lim, err := weir.New(clocked.New(t), permin(1), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []httplimit.Options{
		{}, {Limiter: lim, MaxDelay: -1}, {Limiter: lim, MaxWaiting: -1},
	} {
		if _, err := httplimit.New(opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
	for _, opt := range []httplimit.TransportOptions{{}, {Limiter: lim, MaxWaiting: -1}} {
		if _, err := httplimit.NewTransport(opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
}

// plainWriter is a ResponseWriter that can do nothing else.
type plainWriter struct {
	header http.Header
	status int
}

func (w *plainWriter) Header() http.Header         { return w.header }
func (w *plainWriter) WriteHeader(status int)      { w.status = status }
func (w *plainWriter) Write(b []byte) (int, error) { return len(b), nil }
