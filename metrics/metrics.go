// Package metrics tells Prometheus what a node decides.
//
// Every label value comes from the rules file or the configuration, never from
// a client: the number of series does not depend on traffic. Reading costs the
// decision path nothing, the collectors read the counters that it keeps anyway.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/recorder"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
)

// Options says what there is to be read. All functions are called at each
// scrape and must be safe for concurrent use.
type Options struct {
	// Limits returns the limits of the current rules. Zero means none.
	Limits func() []limits.Ref
	// MaxSeries is the most limits told apart; those beyond it are summed under
	// the rule "(other)". Zero means 10,000.
	MaxSeries int
	// Store returns the state of the store. Zero means no store metrics.
	Store func() Store
	// Shared returns how the store that nodes share is doing. Zero means that
	// none is shared.
	Shared func() Shared
	// Regions says that there are several, which count limits together that do not
	// say how they are counted. Zero means that each says.
	Regions bool
	// Calls measures the calls of that store. Nil means no metrics of them.
	Calls *Calls
	// Redis returns how a store on Redis is doing. Zero means that there is none.
	Redis func() Redis
	// Overlay tells what operators laid over the rules. Zero means no metrics of
	// it.
	Overlay func() Overlay
	// Sketch returns how exact the sketch of an approximate limit is, and false
	// if there is none yet. Zero means no sketch metrics.
	Sketch func(*weir.Limit) (sketch.Stats, bool)
	// Reloads returns how reloading the rules went. Zero means no reload
	// metrics.
	Reloads func() Reloads
	// Shed returns how load shedding stands. Zero means no metrics of it.
	Shed func() Shed
	// RESP returns how the front end for Redis clients is doing. Zero means no
	// metrics of it.
	RESP func() RESP
	// Certificates returns those of the listeners. Zero means none.
	Certificates func() []Certificate
	// Telemetry returns how sending to a collector went. Zero means that nothing is
	// sent.
	Telemetry func() Telemetry
	// Semantic says that [Metrics.Gatherer] has metrics under OpenTelemetry's own
	// names as well, which cost a request some 60 ns. Zero means that it has not.
	Semantic bool
	// Events returns how telling of decisions is doing. Zero means that nobody is
	// told.
	Events func() Events
	// Unlimited is called with every request that was decided and met no limit, nor
	// any but those that Extra reports. Nil means that nobody wants to know.
	Unlimited func(*weir.Request)
	// Extra reports whether a limit is not of the rules. Nil means that none is.
	Extra func(*weir.Limit) bool
	// Unmatched returns the requests that met no rule. Zero means no metrics of them.
	Unmatched func() []Unmatched
	// Unasked returns how many rules no request can meet. Zero means no metric of them.
	Unasked func() int
	// Guesses returns how many admin tokens and passwords were wrong. Zero means no
	// metric of them.
	Guesses func() uint64
	// RefusedBodies returns how many requests were refused because there was no room
	// for their bodies. Zero means no such metric.
	RefusedBodies func() uint64
	// Connections returns what became of connections that were not let in, or not
	// kept. Zero means no metrics of them.
	Connections func() []Connections
	// Identity returns what requests said in vain of whom they are from. Zero means no
	// metrics of it.
	Identity func() Identity
	// Build says which binary this is. Zero means unknown.
	Build Build
}

// Connections counts the connections of one listener that were not let in, or not
// kept.
type Connections struct {
	// Listener is its section of the configuration.
	Listener string
	// RefusedClient were closed as they came, since their client held its share, and
	// RefusedFull as all places were taken; RefusedProxy lacked the PROXY header that
	// their peer must send, and RefusedUnasked had one that theirs must not;
	// ClosedFull and ClosedClient were idle and made room for others, of all and of
	// the same client; ClosedIdle were upgraded, and nothing moved on them.
	RefusedClient, RefusedFull, RefusedProxy, RefusedUnasked, ClosedFull, ClosedClient, ClosedIdle uint64
}

// Unmatched is how many requests to a domain met no rule.
type Unmatched struct {
	Domain   string
	Requests uint64
}

// Store is what a store says of itself.
type Store struct {
	// Keys counts the keys with state of their own.
	Keys uint64
	// Bytes is the memory for state, Bound the most it may be; zero where
	// there is no bound.
	Bytes, Bound uint64
	// Approximate is the memory of the sketches of approximate limits, which
	// is not in Bytes.
	Approximate uint64
	// Overflowed counts decisions made from the overflow sketch since start.
	Overflowed uint64
	// Full reports whether the store is full, or was a moment ago.
	Full bool
}

// Reloads is how reloading the rules went since start.
type Reloads struct {
	// Succeeded and Failed count attempts, the first load included.
	Succeeded, Failed uint64
	// OK reports whether the last attempt succeeded.
	OK bool
	// Last is when the rules in use were loaded.
	Last time.Time
}

// Build says which binary runs.
type Build struct{ Version, Revision, Go string }

// Metrics is a registry of its own, so that several servers in one process do
// not mix. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	duration *prometheus.HistogramVec
	errors   prometheus.Counter
	semantic *semantic // nil without
	// unlimited and extra are those of Options.
	unlimited func(*weir.Request)
	extra     func(*weir.Limit) bool
}

// New returns the metrics of one server.
func New(opt Options) *Metrics {
	if opt.MaxSeries == 0 {
		opt.MaxSeries = 10_000
	}
	m := &Metrics{
		unlimited: opt.Unlimited, extra: opt.Extra,
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_http_request_duration_seconds",
			Help: "Duration of HTTP requests, by front end and class of status.",
			// From 50 microseconds, what a decision over loopback takes, to
			// what a slow upstream takes.
			Buckets: []float64{5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"frontend", "code"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total",
			Help: "Requests that the store could not decide.",
		}),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.duration, m.errors,
		&collector{opt: opt},
	)
	if opt.Calls != nil {
		m.registry.MustRegister(opt.Calls.duration, opt.Calls.errors)
	}
	if opt.Semantic {
		m.semantic = newSemantic()
	}
	return m
}

// Gatherer returns the metrics for those that send them elsewhere.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	if m.semantic == nil {
		return m.registry
	}
	return prometheus.Gatherers{m.registry, m.semantic.registry}
}

// Register adds the metrics of something that comes later.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Handler serves the metrics in the Prometheus and OpenMetrics text formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4,
	})
}

// Observe implements [weir.Observer]: it counts what the store could not
// answer, and passes on what met no limit.
func (m *Metrics) Observe(r *weir.Request, _ weir.Decision, err error) {
	if err != nil {
		m.errors.Inc()
		return
	}
	if m.unlimited == nil {
		return
	}
	if ops := r.Ops(); len(ops) == 0 || m.extra != nil && m.extra(ops[0].Limit) {
		m.unlimited(r)
	}
}

var _ weir.Observer = (*Metrics)(nil)

// Instrument times the requests that next answers.
func (m *Metrics) Instrument(frontend string, next http.Handler) http.Handler {
	// The classes are resolved once: a lookup by label costs eight times as
	// much as the observation.
	var classes [6]prometheus.Observer
	for c := 1; c < len(classes); c++ {
		classes[c] = m.duration.WithLabelValues(frontend, strconv.Itoa(c)+"xx")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := recorder.New(w)
		// Deferred, because a proxy that loses its upstream in the middle of
		// an answer panics with http.ErrAbortHandler.
		finished := false
		defer func() {
			if !finished {
				rec.Status = http.StatusInternalServerError
			}
			took := time.Since(began).Seconds()
			classes[min(max(rec.Status/100, 1), 5)].Observe(took)
			if m.semantic != nil {
				m.semantic.observe(frontend, r, rec.Status, took)
			}
		}()
		next.ServeHTTP(&rec, r)
		finished = true
	})
}
