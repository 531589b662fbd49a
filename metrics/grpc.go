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
	type call struct{ method, code string }
	calls := observers[call]{find: func(c call) prometheus.Observer { return h.WithLabelValues(c.method, c.code) }}
	return func(method, code string, took time.Duration) {
		calls.observerFor(call{method, code}).Observe(took.Seconds())
	}
}

// observers are those of a histogram's series that were looked up before: to look one up
// by its labels costs eight times as much as the observation. Safe for concurrent use.
type observers[K comparable] struct {
	find  func(K) prometheus.Observer
	mu    sync.RWMutex
	known map[K]prometheus.Observer
}

func (o *observers[K]) observerFor(key K) prometheus.Observer {
	o.mu.RLock()
	found := o.known[key]
	o.mu.RUnlock()
	if found != nil {
		return found
	}
	found = o.find(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[K]prometheus.Observer{}
	}
	o.known[key] = found
	return found
}
