package ratelimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Large bodies and those of unknown length take turns; small ones do not wait.
func TestLargeBodies(t *testing.T) {
	var inside, most atomic.Int64
	gate := make(chan struct{})
	h := largeBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 && r.ContentLength <= smallBody {
			return
		}
		n := inside.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-gate
		inside.Add(-1)
	}))
	ask := func(length int64) {
		r := httptest.NewRequest("POST", "/json", strings.NewReader(""))
		r.ContentLength = length
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	var all sync.WaitGroup
	for i := range 4 * maxLarge {
		length := int64(smallBody + 1)
		if i%2 == 0 {
			length = -1
		}
		all.Go(func() { ask(length) })
	}
	ask(smallBody) // comes back though the others are there
	for range 4 * maxLarge {
		gate <- struct{}{}
	}
	all.Wait()
	if m := most.Load(); m < 1 || m > maxLarge {
		t.Errorf("%d at a time, want %d at most", m, maxLarge)
	}
}
