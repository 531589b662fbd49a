package gateway_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// serve starts a gateway with the given limits in front of upstream.
func serve(t *testing.T, store weir.Store, limits weir.Limits, upstream http.HandlerFunc, opt gateway.Options) *httptest.Server {
	t.Helper()
	if opt.Default.Upstream == nil {
		up := httptest.NewServer(upstream)
		t.Cleanup(up.Close)
		var err error
		if opt.Default.Upstream, err = url.Parse(up.URL); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, newGateway(t, store, limits, opt), false)
}

func newGateway(t *testing.T, store weir.Store, limits weir.Limits, opt gateway.Options, observers ...weir.Observer) *gateway.Gateway {
	t.Helper()
	lim, err := weir.New(store, limits, weir.Options{Observers: observers})
	if err != nil {
		t.Fatal(err)
	}
	opt.Limits.Limiter = lim
	g, err := gateway.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// forwardTo returns a gateway to one upstream.
func forwardTo(t *testing.T, lim *weir.Limiter, upstream string) *gateway.Gateway {
	t.Helper()
	to, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Limits: httplimit.Options{Limiter: lim}, Default: gateway.Forward{Upstream: to}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start serves h over HTTP/1.1 and HTTP/2, the latter with prior knowledge
// unless it is encrypted.
func start(t *testing.T, h http.Handler, encrypted bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail, answers broken off
	if encrypted {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		return srv
	}
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	return srv
}

// get fetches url and returns the answer and its body.
func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return res, servertest.Body(t, res)
}

func TestForwardAndRefuse(t *testing.T) {
	limit := weir.PerMinute(2, algorithm.FixedWindow)
	limit.Name = "permin"
	var upstreamSaw []string
	srv := serve(t, clocked.New(t), weir.Limits{limit}, func(w http.ResponseWriter, r *http.Request) {
		upstreamSaw = append(upstreamSaw, r.Method+" "+r.URL.String()+" for "+r.Header.Get("X-Forwarded-For"))
		w.Header().Set("X-App", "yes")
		fmt.Fprint(w, "hello")
	}, gateway.Options{})

	header := func(h http.Header) string {
		var b strings.Builder
		for _, k := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining",
			"X-RateLimit-Retry-After", "Retry-After", "Cache-Control", "Content-Type"} {
			if v := h.Values(k); v != nil {
				fmt.Fprintf(&b, "%s: %s\n", k, strings.Join(v, " | "))
			}
		}
		return b.String()
	}
	for left := 1; left >= 0; left-- {
		res, body := get(t, srv.URL+"/a/b?c=d")
		want := fmt.Sprintf("RateLimit-Policy: \"permin\";q=2;w=60\nRateLimit: \"permin\";r=%d;t=40\n"+
			"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: %d\nContent-Type: text/plain; charset=utf-8\n", left, left)
		if res.StatusCode != 200 || body != "hello" || res.Header.Get("X-App") != "yes" || header(res.Header) != want {
			t.Errorf("got %d %q\n%swant\n%s", res.StatusCode, body, header(res.Header), want)
		}
	}
	res, body := get(t, srv.URL)
	want := "RateLimit-Policy: \"permin\";q=2;w=60\nRateLimit: \"permin\";r=0;t=40\nX-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\n" +
		"X-RateLimit-Retry-After: 40\nRetry-After: 40\nCache-Control: no-store\nContent-Type: application/problem+json\n"
	if res.StatusCode != 429 || header(res.Header) != want {
		t.Errorf("refusal: got %d\n%swant\n%s", res.StatusCode, header(res.Header), want)
	}
	wantBody := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
		`"detail":"the limit permin is exhausted; try again in 40 seconds","violated-policies":["permin"],"retry_after":40}`
	if body != wantBody {
		t.Errorf("refusal: got %s\nwant %s", body, wantBody)
	}
	if len(upstreamSaw) != 2 || upstreamSaw[0] != "GET /a/b?c=d for 127.0.0.1" {
		t.Errorf("upstream saw %q", upstreamSaw)
	}
}
