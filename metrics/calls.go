package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Failure is why a call of the shared store failed.
type Failure uint8

const (
	// NoFailure: the store decided.
	NoFailure Failure = iota
	// FailedTimeout: there was no response in time; the call may have been executed.
	FailedTimeout
	// FailedBusy: too many calls waited. This one was not made.
	FailedBusy
	// FailedUnreachable: no server was reachable.
	FailedUnreachable
	// FailedRefused: the server responded with an error, such as when its memory is full.
	FailedRefused
	// FailedCanceled: the caller canceled the call.
	FailedCanceled
	// FailedOpen: the circuit breaker was open. No call was made.
	FailedOpen
	// FailedOther is the rest.
	FailedOther

	failures = int(FailedOther) + 1
)

// String returns the label of a failure.
func (f Failure) String() string {
	return [failures]string{"none", "timeout", "busy", "unreachable", "server_error", "canceled", "breaker_open", "other"}[min(f, FailedOther)]
}

// Calls measures the calls of a shared store. Safe for concurrent use.
type Calls struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	// The series are resolved once: a call looks nothing up and allocates nothing.
	ok, failed prometheus.Observer
	failures   [failures]prometheus.Counter
}

// NewCalls returns the measurements of one store, for [Options].
func NewCalls() *Calls {
	c := &Calls{
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
	for f := FailedTimeout; int(f) < failures; f++ {
		c.failures[f] = c.errors.WithLabelValues(f.String())
	}
	return c
}

// Observe times a call that ended so.
func (c *Calls) Observe(took time.Duration, f Failure) {
	if f == NoFailure {
		c.ok.Observe(took.Seconds())
		return
	}
	c.failed.Observe(took.Seconds())
}

// CountFailure counts a decision that was made without the store, or another call without an
// answer.
func (c *Calls) CountFailure(f Failure) { c.failures[min(f, FailedOther)].Inc() }
