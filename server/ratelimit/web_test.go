package ratelimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Large bodies and those of unknown length take turns; small ones do not wait.
func TestLargeBodies(t *testing.T) {
	for _, length := range []int64{-1, smallBody + 1} {
		synctest.Test(t, func(t *testing.T) {
			var inside, done atomic.Int64
			gate := make(chan struct{})
			h := largeBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.ContentLength != smallBody {
					inside.Add(1)
					<-gate
				}
				done.Add(1)
			}))
			ask := func(length int64) {
				r := httptest.NewRequest("POST", "/json", strings.NewReader(""))
				r.ContentLength = length
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			for range 3 * maxLarge {
				go ask(length)
			}
			synctest.Wait()
			if n := inside.Load(); n != maxLarge {
				t.Errorf("%d of length %d at a time, want %d", n, length, maxLarge)
			}
			ask(smallBody)
			close(gate)
			synctest.Wait()
			if n := done.Load(); n != 3*maxLarge+1 {
				t.Errorf("%d are answered", n)
			}
		})
	}
}
