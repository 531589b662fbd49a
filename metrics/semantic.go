package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/recorder"
)

// semantic measures requests under the name that OpenTelemetry's conventions have for
// it, in a registry that Prometheus does not read: it has the same as
// weir_http_request_duration_seconds.
//
// Source: semantic conventions 1.43.0, HTTP metrics, with the bounds that they
// advise.
type semantic struct {
	registry *prometheus.Registry
	duration *prometheus.HistogramVec
	series   observers[request]
}

// request is what one series is about.
type request struct {
	frontend, method string
	status           int
	tls              bool
}

func newSemantic() *semantic {
	s := &semantic{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http.server.request.duration",
			Help:    "Duration of HTTP server requests.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		}, []string{"http.request.method", "http.response.status_code", "url.scheme", "error.type", "ratelimit.frontend"}),
	}
	s.series.find = s.findObserver
	s.registry.MustRegister(s.duration)
	return s
}

// observe tells of a request that was answered in so many seconds.
func (s *semantic) observe(frontend string, r *http.Request, status int, took float64) {
	// An upstream can send any three digits.
	k := request{frontend, recorder.Method(r.Method), min(max(status, 100), 600), r.TLS != nil}
	s.series.observerFor(k).Observe(took)
}

func (s *semantic) findObserver(k request) prometheus.Observer {
	code, scheme, failed := strconv.Itoa(k.status), "http", ""
	if k.tls {
		scheme = "https"
	}
	if k.status >= 500 {
		failed = code
	}
	return s.duration.WithLabelValues(k.method, code, scheme, failed, k.frontend)
}
