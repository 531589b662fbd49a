package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/testing/otlptest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

// The collector gets every series that Prometheus would read, under its name, and
// what OpenTelemetry has a name for under that too.
func TestMetrics(t *testing.T) {
	for _, protocol := range []string{telemetry.ProtocolHTTP, telemetry.ProtocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
			t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
			col := otlptest.New()
			url := col.Serve(t, protocol)
			m := metrics.New(metrics.Options{
				Limits:   func() []limits.Ref { return []limits.Ref{{Domain: "shop", Rule: "user", Limit: limit}} },
				Store:    func() metrics.Store { return metrics.Store{Bytes: 4096} },
				Semantic: true,
				Build:    metrics.Build{Version: "v9"}, // and no revision
			})
			h := m.Instrument("gateway", http.NotFoundHandler())
			for range 7 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("BREW", "/", nil))
			}
			m.GRPC()("/a.B/C", "DeadlineExceeded", 3*time.Millisecond)
			tel := open(t, telemetry.Options{Endpoint: url, Protocol: protocol, Gather: m.Gatherer, Every: 100 * time.Millisecond})
			servertest.Await(t, "metrics", func() bool { return col.Metric("weir_store_bytes") != nil && tel.Stats().MetricsSent > 0 })
			if s := tel.Stats(); s.MetricsSent == 0 || s.MetricsFailed != 0 || s.TracesSent != 0 {
				t.Errorf("%+v", s)
			}
			end(t, tel)
			if protocol == telemetry.ProtocolHTTP && (col.Header("Authorization") != "Bearer abc" || col.Header("Content-Encoding") != "gzip") {
				t.Errorf("sent with %q, %q", col.Header("Authorization"), col.Header("Content-Encoding"))
			}

			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			names := regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(w.Body.String(), -1)
			got := col.Names()
			for _, n := range names {
				if !slices.Contains(got, n[1]) {
					t.Errorf("%s is not sent", n[1])
				}
			}
			if len(names) < 30 || len(got) != len(names)+2 {
				t.Errorf("Prometheus reads %d, and %d are sent: %v", len(names), len(got), got)
			}
			if strings.Contains(w.Body.String(), "http.server") {
				t.Error("Prometheus reads requests twice")
			}

			count := func(name, attrs string, unit string) uint64 {
				t.Helper()
				m := col.Metric(name)
				if m == nil || m.Unit != unit {
					t.Errorf("%s: unit %q, want %q", name, m.GetUnit(), unit)
					return 0
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					if words(p) == attrs {
						return p.Count
					}
				}
				t.Errorf("%s: no point of %s in %s", name, attrs, m)
				return 0
			}
			if n := count("weir_http_request_duration_seconds", "code=4xx frontend=gateway", "s"); n != 7 {
				t.Errorf("%d requests", n)
			}
			if n := count("http.server.request.duration", "http.request.method=_OTHER http.response.status_code=404 ratelimit.frontend=gateway url.scheme=http", "s"); n != 7 {
				t.Errorf("%d requests", n)
			}
			if n := count("rpc.server.call.duration", "rpc.method=a.B/C rpc.response.status_code=DEADLINE_EXCEEDED rpc.system.name=grpc", "s"); n != 1 {
				t.Errorf("%d calls", n)
			}
			if got := col.Metric("weir_store_bytes"); got.Unit != "By" || got.GetGauge().DataPoints[0].GetAsDouble() != 4096 {
				t.Errorf("%s", got)
			}
			if got := otlptest.Attributes(col.Metric("weir_build_info").GetGauge().DataPoints[0].Attributes); got["version"] != "v9" || len(got) != 1 {
				t.Errorf("%v", got)
			}
			decisions := col.Metric("weir_decisions_total").GetSum()
			if !decisions.GetIsMonotonic() || decisions.GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || len(decisions.DataPoints) != 2 {
				t.Errorf("%s", decisions)
			}
		})
	}
}

// words returns the attributes of a point, whose status is a number.
func words(p *metricspb.HistogramDataPoint) string {
	var out []string
	for _, kv := range p.Attributes {
		v := kv.Value.GetStringValue()
		if kv.Key == "http.response.status_code" {
			v = ""
			if kv.Value.GetIntValue() == 404 {
				v = "404"
			}
		}
		out = append(out, kv.Key+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// What is not sent is counted; a collector that comes back gets it all, as sums go on.
func TestMetricsAway(t *testing.T) {
	t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "200")
	col := otlptest.New()
	url := col.HTTP(t)
	col.SetUnavailable(true)
	m := metrics.New(metrics.Options{Store: func() metrics.Store { return metrics.Store{} }})
	tel := open(t, telemetry.Options{Endpoint: url, Gather: m.Gatherer, Every: 100 * time.Millisecond})
	servertest.Await(t, "failures", func() bool { return tel.Stats().MetricsFailed >= 2 })
	if col.Metric("weir_store_bytes") != nil {
		t.Error("taken by a collector that is away")
	}
	col.SetUnavailable(false)
	servertest.Await(t, "metrics", func() bool { return col.Metric("weir_store_bytes") != nil })
}
