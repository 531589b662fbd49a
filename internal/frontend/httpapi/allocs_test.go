//go:build !race

// sync.Pool drops at random under the race detector.

package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// sink is an answer that goes nowhere.
type sink struct {
	header http.Header
	last   []byte
}

func (s *sink) Header() http.Header             { return s.header }
func (s *sink) WriteHeader(int)                 {}
func (s *sink) Write(b []byte) (int, error)     { s.last = b; return len(b), nil }
func (s *sink) SetReadDeadline(time.Time) error { return nil }

// TestShouldAllowRequestAllocates once, for what sets the body's deadline: the
// rest of an exchange's garbage is net/http's own.
func TestShouldAllowRequestAllocates(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{weir.PerMinute(1000, algorithm.TokenBucket)}, httpapi.Options{})
	body := strings.NewReader(`{"clientId":"123","timestamp":"2023-07-13T07:20:50.52Z"}`)
	r := httptest.NewRequest("POST", "/shouldAllowRequest", nil)
	r.Body, r.ContentLength = io.NopCloser(body), body.Size()
	w := &sink{header: http.Header{}}
	n := testing.AllocsPerRun(500, func() {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		srv.api.ServeHTTP(w, r)
	})
	if string(w.last) != `{"allowed":true}` {
		t.Fatalf("got %s", w.last)
	}
	if n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}
