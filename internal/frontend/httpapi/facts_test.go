package httpapi_test

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers are told of a client what the request says of it, and no more.
func TestFactsOfEntries(t *testing.T) {
	seen := witness.New()
	lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(3, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Limiter: lim})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(api)
	defer srv.Close()
	const check = `{"descriptors":[{"entries":{"remote_address":"203.0.113.7","path":"/x?y"},"cost":2},{"entries":{"user":"ann"}}]}`
	for _, c := range []struct{ path, body string }{
		{"/v1/check", check}, {"/v1/check", check}, {"/v1/peek", check},
		{"/v1/check", `{"checks":[{"descriptors":[{"entries":{"user":"bob"}}]},{"descriptors":[{"entries":{"user":"eve"}}]}]}`},
		{"/shouldAllowRequest", `{"clientId":"42"}`},
	} {
		if status, body := post(t, srv.URL, c.path, c.body); status != 200 {
			t.Fatalf("%s: %d %s", c.path, status, body)
		}
	}
	const ann = "203.0.113.7   /x ann  "
	if got, want := seen.Notes(), []string{"allowed: " + ann, "refused: " + ann, "refused: " + ann,
		"allowed:     bob  ", "allowed:     eve  ", "allowed: unknown"}; !slices.Equal(got, want) {
		t.Errorf("told %q\nwant %q", got, want)
	}
}
