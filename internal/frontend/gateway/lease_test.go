package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// However a request ends, its place is free for the next one.
func TestLeaseEndsWithTheRequest(t *testing.T) {
	one := weir.PerHour(1, algorithm.Concurrency)
	srv := serve(t, clocked.New(t), weir.Limits{one}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/break" {
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}, gateway.Options{})
	// Called as the server would, but at once over when it returns.
	visit := func(path string) (status int, broken bool) {
		defer func() { broken = recover() != nil }()
		r := httptest.NewRequest("GET", path, nil)
		rec := httptest.NewRecorder()
		srv.Config.Handler.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, srv.Config)))
		return rec.Code, false
	}
	for _, path := range []string{"/", "/", "/break", "/break", "/"} {
		status, broken := visit(path)
		if want := path == "/break"; broken != want || !broken && status != 200 {
			t.Errorf("%s: status %d, broken off %v", path, status, broken)
		}
	}
}
