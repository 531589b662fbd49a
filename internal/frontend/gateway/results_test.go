package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers are told who asked and what the upstream answered, or that it did not.
func TestResults(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/broken":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}
	}))
	t.Cleanup(up.Close)
	upstream, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	seen := witness.New()
	opt := gateway.Options{}
	opt.Default.Upstream = upstream
	srv := start(t, newGateway(t, clocked.New(t), weir.Limits{weir.PerMinute(3, algorithm.FixedWindow)}, opt, seen), false)
	for _, c := range []struct {
		path   string
		status int
		ended  string
	}{{"/", 200, "200"}, {"/missing", 404, "404"}, {"/broken", 502, "0"}, {"/over", 429, ""}} {
		r, err := http.NewRequest("GET", srv.URL+c.path+"?q=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", "tester/1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		who := "127.0.0.1 GET 127.0.0.1 " + c.path + "   tester/1"
		want := []string{"allowed: " + who, "ended: " + c.ended + ": " + who}
		if c.ended == "" {
			want = []string{"refused: " + who}
		}
		got := seen.Wait(len(want))
		if res.StatusCode != c.status || !slices.Equal(got, want) {
			t.Errorf("%s: %d, told %q\nwant %d, %q", c.path, res.StatusCode, got, c.status, want)
		}
	}
}
