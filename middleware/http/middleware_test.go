package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// limited returns next behind limits on store.
func limited(t testing.TB, store weir.Store, rules weir.Rules, opt httplimit.Options, next http.HandlerFunc) http.Handler {
	t.Helper()
	var err error
	if opt.Limiter, err = weir.New(store, rules, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return m.Handler(next)
}

// start serves h over HTTP/1.1 on loopback.
func start(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// get fetches url and returns the answer and its body.
func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
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

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// TestEveryHeader: allowed and refused, byte for byte.
func TestEveryHeader(t *testing.T) {
	srv := start(t, limited(t, clocked.New(t), permin(1), httplimit.Options{}, hello))
	res, body := get(t, srv.URL)
	want := `Content-Length: 5
Content-Type: text/plain; charset=utf-8
Ratelimit-Policy: "permin";q=1;w=60
Ratelimit: "permin";r=0;t=40
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0`
	if got := lines(res.Header); res.StatusCode != 200 || body != "hello" || got != want {
		t.Errorf("got %d %q\n%s\nwant\n%s", res.StatusCode, body, got, want)
	}
	res, body = get(t, srv.URL)
	want = `Cache-Control: no-store
Content-Length: 265
Content-Type: application/problem+json
Ratelimit-Policy: "permin";q=1;w=60
Ratelimit: "permin";r=0;t=40
Retry-After: 40
X-Content-Type-Options: nosniff
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Retry-After: 40`
	const wantBody = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
		`"detail":"the limit is exhausted; try again in 40 seconds","violated-policies":["permin"],"retry_after":40,"guarantee":{"exact":true,"degraded":false}}`
	if got := lines(res.Header); res.StatusCode != 429 || got != want || body != wantBody {
		t.Errorf("got %d\n%s\n%s\nwant\n%s\n%s", res.StatusCode, got, body, want, wantBody)
	}
}
