//go:build !race

// sync.Pool drops at random under the race detector.

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestAllowedAllocatesTwice: what a request that is allowed, with its header
// fields, costs beside its handler.
func TestAllowedAllocatesTwice(t *testing.T) {
	s := &site{t: t, store: clocked.New(t)}
	text := []string{"text/plain"}
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = text
		w.WriteHeader(http.StatusOK)
	})
	h := s.limited(weir.Limits{weir.PerMinute(1<<40, algorithm.TokenBucket), weir.PerDay(1<<50, algorithm.FixedWindow)}, httplimit.Options{}, bare)
	r := httptest.NewRequest("GET", "/items/17?page=2", nil)
	allocs := func(h http.Handler) float64 {
		return testing.AllocsPerRun(500, func() {
			w := &plainWriter{header: http.Header{}}
			h.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				t.Fatalf("status %d", w.status)
			}
		})
	}
	if without, with := allocs(bare), allocs(h); with-without > 2 {
		t.Errorf("%v allocations more than the %v of the handler, want 2", with-without, without)
	}
	// An observer of results sees them through a ResponseWriter of its own.
	lim, err := weir.New(s.store, weir.Limits{weir.PerMinute(1<<40, algorithm.TokenBucket)}, weir.Options{Observers: []weir.Observer{deaf{}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: lim})
	if err != nil {
		t.Fatal(err)
	}
	if without, with := allocs(bare), allocs(m.Handler(bare)); with-without > 4 {
		t.Errorf("observed, %v allocations more than the %v of the handler, want 4", with-without, without)
	}
}

// deaf is told of everything and keeps nothing.
type deaf struct{}

func (deaf) Observe(*weir.Request, weir.Decision, error) {}

func (deaf) ObserveResult(*weir.Request, weir.Result) {}
