package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir/internal/faults"
)

// openTraces makes the spans and what sends them.
func (t *Telemetry) openTraces(p plan, about *resource.Resource) error {
	ctx := context.Background()
	var client otlptrace.Client
	if p.protocol == ProtocolGRPC {
		client = otlptracegrpc.NewClient(endpoint(p, otlptracegrpc.WithEndpointURL)...)
	} else {
		client = otlptracehttp.NewClient(endpoint(p, otlptracehttp.WithEndpointURL)...)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return err
	}
	most := t.opt.maxSpans()
	t.spans = &spanQueue{most: int64(most)}
	sender := spanSender{exporter, t.spans, t.traces}
	t.spans.SpanProcessor = sdktrace.NewBatchSpanProcessor(sender, sdktrace.WithMaxQueueSize(most))
	t.tracers = sdktrace.NewTracerProvider(
		// Nobody's trace begins here: a limiter is asked by those who have one.
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample(), sdktrace.WithRemoteParentSampled(&t.budget))),
		sdktrace.WithSpanProcessor(t.spans),
		sdktrace.WithResource(about),
	)
	t.tracer = t.tracers.Tracer(scope, trace.WithInstrumentationVersion(t.opt.Version))
	return nil
}

// endpoint returns the option of an exporter by which it sends to the URL of p, none where the
// exporter is to ask the environment.
func endpoint[Option any](p plan, withURL func(string) Option) []Option {
	if p.url == "" {
		return nil
	}
	return []Option{withURL(p.url)}
}

// openMetrics sends what is gathered, now and then.
func (t *Telemetry) openMetrics(p plan, about *resource.Resource) error {
	ctx := context.Background()
	var exporter sdkmetric.Exporter
	var err error
	if p.protocol == ProtocolGRPC {
		exporter, err = otlpmetricgrpc.New(ctx, endpoint(p, otlpmetricgrpc.WithEndpointURL)...)
	} else {
		exporter, err = otlpmetrichttp.New(ctx, endpoint(p, otlpmetrichttp.WithEndpointURL)...)
	}
	if err != nil {
		return err
	}
	opts := []sdkmetric.PeriodicReaderOption{sdkmetric.WithProducer(producer{t.opt.Gather})}
	if t.opt.Every > 0 {
		opts = append(opts, sdkmetric.WithInterval(t.opt.Every))
	}
	reader := sdkmetric.NewPeriodicReader(metricExporter{exporter, t.metrics}, opts...)
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	return nil
}

// spanQueue bounds how many ended spans wait for a batch processor to send them.
type spanQueue struct {
	sdktrace.SpanProcessor
	most int64

	// waiting counts spans that have ended and are not sent.
	//
	// Invariant: at most most, so that the processor, which does not tell of what it
	// drops, drops nothing.
	waiting             atomic.Int64
	sent, lost, dropped atomic.Uint64
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.waiting.Add(1) > q.most {
		q.waiting.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanSender sends what has waited, and tells our log what fails: the library has a
// global one alone.
type spanSender struct {
	sdktrace.SpanExporter
	queue   *spanQueue
	exports *exports
}

// ExportSpans implements sdktrace.SpanExporter.
func (s spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	for i, span := range spans {
		if span.InstrumentationScope().Name != scope {
			spans[i] = redactedSpan{span}
		}
	}
	err := s.SpanExporter.ExportSpans(ctx, spans)
	n := len(spans)
	s.queue.waiting.Add(int64(-n))
	if err != nil {
		s.queue.lost.Add(uint64(n))
	} else {
		s.queue.sent.Add(uint64(n))
	}
	s.exports.noteExport(err)
	return nil
}

// redactedSpan is a span of a library as it is sent. The libraries tell addresses, paths, what
// clients call themselves and the text of errors, none of which a span may hold, and
// leave out error.type.
type redactedSpan struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Attributes() []attribute.KeyValue {
	var out []attribute.KeyValue
	for _, a := range s.ReadOnlySpan.Attributes() {
		switch a.Key {
		case "http.response.status_code", "rpc.response.status_code":
			if s.Status().Code == codes.Error {
				out = append(out, attribute.String("error.type", a.Value.String()))
			}
		case "http.request.method", "http.route", "url.scheme", "rpc.system.name", "rpc.method", "ratelimit.frontend", "error.type":
		default:
			continue
		}
		out = append(out, a)
	}
	return out
}

// Events implements sdktrace.ReadOnlySpan: those of panics have their text.
func (redactedSpan) Events() []sdktrace.Event { return nil }

// Status implements sdktrace.ReadOnlySpan.
func (s redactedSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// metricExporter tells our log what fails.
type metricExporter struct {
	sdkmetric.Exporter
	exports *exports
}

// Export implements sdkmetric.Exporter.
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.exports.noteExport(e.Exporter.Export(ctx, m))
	return nil
}

// exports counts exports of one signal and logs when the collector takes none, and when it
// does again.
type exports struct {
	outage       *faults.Outage
	sent, failed atomic.Uint64
}

func newExports(signal string, log *slog.Logger) *exports {
	return &exports{outage: faults.NewOutage(log, "telemetry export failed; will retry, decisions are not affected", "telemetry export recovered", "signal", signal)}
}

// noteExport is told of every export.
func (e *exports) noteExport(err error) {
	if err != nil {
		e.failed.Add(1)
		e.outage.Failed(err)
		return
	}
	e.sent.Add(1)
	e.outage.Succeeded()
}
