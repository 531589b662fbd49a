package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// answered is a ResponseWriter that costs next to nothing: what is measured is
// what stands in front of the handler.
type answered struct {
	header http.Header
	status int
}

func (w *answered) Header() http.Header         { return w.header }
func (w *answered) WriteHeader(status int)      { w.status = status }
func (w *answered) Write(b []byte) (int, error) { return len(b), nil }

var plain = []string{"text/plain"}

func handle(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = plain
	w.WriteHeader(http.StatusOK)
}

// BenchmarkMiddleware is what an allowed request costs by client address, with
// its header fields: what it says less what it says of bare is added.
func BenchmarkMiddleware(b *testing.B) {
	limit := func(count int64) *weir.Limit { return weir.PerSecond(count, algorithm.TokenBucket) }
	settled := limit(1 << 40)
	settled.Settlement = &weir.Settlement{}
	settled.Settlement.RefundOn.Add(500, 599)
	for _, c := range []struct {
		name   string
		limits weir.Limits
	}{
		{"bare", nil},
		{"one limit", weir.Limits{limit(1 << 40)}},
		{"two limits", weir.Limits{limit(1 << 40), weir.PerHour(1<<50, algorithm.FixedWindow)}},
		{"settled by the answer", weir.Limits{settled}},
		{"concurrency", weir.Limits{weir.PerHour(1000, algorithm.Concurrency)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := http.Handler(http.HandlerFunc(handle))
			if c.limits != nil {
				store := memory.New(memory.Options{})
				defer store.Close()
				limiter, err := weir.New(store, c.limits, weir.Options{})
				if err != nil {
					b.Fatal(err)
				}
				m, err := httplimit.New(httplimit.Options{Limiter: limiter})
				if err != nil {
					b.Fatal(err)
				}
				h = m.Handler(h)
			}
			r := httptest.NewRequest("GET", "http://api.example/items/17?page=2", nil)
			run(b, 1, func(_ int, n int64) (refused int64) {
				w := &answered{header: http.Header{}}
				for range n {
					clear(w.header)
					if h.ServeHTTP(w, r); w.status != http.StatusOK {
						refused++
					}
				}
				return refused
			})
		})
	}
}
