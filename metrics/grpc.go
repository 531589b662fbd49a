package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// GRPC returns what is to be told of every gRPC call: its full method, which must
// be one that is served, the word for its code, and how long the answer took. It
// is safe for concurrent use.
func (m *Metrics) GRPC() func(method, code string, took time.Duration) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weir_grpc_call_duration_seconds",
		Help: "Duration of gRPC calls, by method and code; a refusal by a limit is OK.",
		// From ten microseconds, what a decision takes without the transport.
		Buckets: []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	}, []string{"method", "code"})
	m.registry.MustRegister(h)
	// A lookup by label costs eight times as much as the observation.
	type call struct{ method, code string }
	var mu sync.RWMutex
	known := make(map[call]prometheus.Observer)
	return func(method, code string, took time.Duration) {
		k := call{method, code}
		mu.RLock()
		o := known[k]
		mu.RUnlock()
		if o == nil {
			o = h.WithLabelValues(method, code)
			mu.Lock()
			known[k] = o
			mu.Unlock()
		}
		o.Observe(took.Seconds())
	}
}
