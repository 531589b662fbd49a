package bench

import (
	"net/http"
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

// BenchmarkMiddleware is what an allowed request costs with its header fields,
// by client address under one limit, less what BenchmarkMiddleware/bare says.
func BenchmarkMiddleware(b *testing.B) {
	store := memory.New(memory.Options{})
	defer store.Close()
	limit := func(count int64) *weir.Limit {
		return weir.PerSecond(count, algorithm.TokenBucket)
	}
	settled := limit(1 << 40)
	settled.Settlement = &weir.Settlement{}
	settled.Settlement.RefundOn.Add(500, 599)
	run := func(name string, next http.Handler) {
		b.Run(name, func(b *testing.B) {
			r, err := http.NewRequest("GET", "http://api.example/items/17?page=2", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.RemoteAddr = "192.0.2.7:4711"
			w := &answered{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				next.ServeHTTP(w, r)
			}
			if w.status != http.StatusOK {
				b.Fatalf("status %d: refused", w.status)
			}
		})
	}
	behind := func(limits ...*weir.Limit) http.Handler {
		lim, err := weir.New(store, weir.Limits(limits), weir.Options{})
		if err != nil {
			b.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			b.Fatal(err)
		}
		return m.Handler(http.HandlerFunc(handle))
	}
	run("bare", http.HandlerFunc(handle))
	run("one limit", behind(limit(1<<40)))
	run("two limits", behind(limit(1<<40), weir.PerHour(1<<50, algorithm.FixedWindow)))
	run("settled by the answer", behind(settled))
	run("concurrency", behind(weir.PerHour(1000, algorithm.Concurrency)))
}
