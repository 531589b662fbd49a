package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/storecalls"
)

// Calls measures the calls of a shared store. Safe for concurrent use.
type Calls struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	// The series are resolved once: a call looks nothing up and allocates nothing.
	ok, failed prometheus.Observer
	failures   map[string]prometheus.Counter
}

// NewCalls returns the measurements of one store, for [Options].
func NewCalls() *Calls {
	c := &Calls{
		failures: map[string]prometheus.Counter{},
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_shared_store_call_duration_seconds",
			Help: "Duration of calls of the shared store, by result.",
			// From what a server on the same machine takes to the longest time-out
			// that is sensible.
			Buckets: []float64{5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 5},
		}, []string{"result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_shared_store_errors_total",
			Help: "Decisions made without the shared store, and other calls without an answer, by kind: no response in time (timeout), too many calls waiting (busy), no server reachable (unreachable), an error response (server_error), canceled by the caller (canceled), the circuit breaker was open (breaker_open), other.",
		}, []string{"kind"}),
	}
	c.ok, c.failed = c.duration.WithLabelValues("ok"), c.duration.WithLabelValues("error")
	for _, f := range storecalls.Failures {
		c.failures[f] = c.errors.WithLabelValues(f)
	}
	return c
}

// Observe times a call, and whether it failed: failure is empty if it did not.
func (c *Calls) Observe(took time.Duration, failure string) {
	if failure == "" {
		c.ok.Observe(took.Seconds())
		return
	}
	c.failed.Observe(took.Seconds())
}

// CountFailure counts a decision that was made without the store, or another call without an
// answer: timeout, busy, unreachable, server_error, canceled or breaker_open, anything else is
// other.
func (c *Calls) CountFailure(failure string) {
	counter, ok := c.failures[failure]
	if !ok {
		counter = c.failures[storecalls.Other]
	}
	counter.Inc()
}
