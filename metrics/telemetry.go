package metrics

import "github.com/prometheus/client_golang/prometheus"

// Telemetry is what was sent to a collector since start.
type Telemetry struct {
	// SpansSent were taken, SpansLost were not, SpansDropped found too many waiting.
	SpansSent, SpansLost, SpansDropped uint64
	// Skipped counts requests that were not followed as there were too many.
	Skipped uint64
	// TracesSent and MetricsSent count what was taken at once, TracesFailed and
	// MetricsFailed what was not.
	TracesSent, TracesFailed, MetricsSent, MetricsFailed uint64
}

var (
	otelExports = desc("weir_otel_exports_total", "Exports to the OpenTelemetry collector, by result.", "signal", "result")
	otelSpans   = desc("weir_otel_spans_total", "Spans of traced requests: accepted by the collector (sent), rejected by it (failed), or dropped because the queue was full (dropped).", "result")
	otelSkipped = desc("weir_otel_skipped_requests_total", "Requests with a sampled trace that were not traced because of the bound a second.")
)

var telemetryDescs = []*prometheus.Desc{otelExports, otelSpans, otelSkipped}

func (s *Telemetry) collect(counter writeCounter) {
	counter(otelExports, s.TracesSent, "traces", "success")
	counter(otelExports, s.TracesFailed, "traces", "failure")
	counter(otelExports, s.MetricsSent, "metrics", "success")
	counter(otelExports, s.MetricsFailed, "metrics", "failure")
	counter(otelSpans, s.SpansSent, "sent")
	counter(otelSpans, s.SpansLost, "failed")
	counter(otelSpans, s.SpansDropped, "dropped")
	counter(otelSkipped, s.Skipped)
}
