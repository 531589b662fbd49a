package metrics

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

func (s Telemetry) collect(out sink) {
	exports := out.counters("weir_otel_exports_total", "Exports to the OpenTelemetry collector, by result.", "signal", "result")
	exports.count(s.TracesSent, "traces", "success")
	exports.count(s.TracesFailed, "traces", "failure")
	exports.count(s.MetricsSent, "metrics", "success")
	exports.count(s.MetricsFailed, "metrics", "failure")
	spans := out.counters("weir_otel_spans_total", "Spans of traced requests: accepted by the collector (sent), rejected by it (failed), or dropped because the queue was full (dropped).", "result")
	spans.count(s.SpansSent, "sent")
	spans.count(s.SpansLost, "failed")
	spans.count(s.SpansDropped, "dropped")
	out.counter("weir_otel_skipped_requests_total", "Requests with a sampled trace that were not traced because of the bound a second.", s.Skipped)
}
