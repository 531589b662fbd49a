// Package telemetry tells an OpenTelemetry collector what a node does: spans of
// requests that belong to a trace which whoever asks has begun and sampled, and the
// metrics that Prometheus would read, over OTLP.
//
// A request without a sampled trace costs one look at a header field: nothing is
// allocated for it and no clock is read. Nothing here waits for the collector but the
// goroutines that send to it.
package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir/limits"
)

// Protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	ProtocolGRPC = "grpc"
	ProtocolHTTP = "http/protobuf"
)

// scope names what makes the spans.
const scope = "github.com/weirlimit/weir"

// Options configures a [Telemetry]; the caller has checked them. See docs/reference/telemetry.md for what of OpenTelemetry's
// environment variables counts beside it.
type Options struct {
	// Endpoint is the URL of the collector, http:// or https://, for all signals; over
	// HTTP /v1/traces and /v1/metrics are added to it. Zero means what the
	// environment says; if that says nothing, nothing is sent.
	Endpoint string
	// Protocol is [ProtocolHTTP] or [ProtocolGRPC]. Zero means what the environment
	// says, or ProtocolHTTP.
	Protocol string
	// NoTraces and NoMetrics keep back one of the signals. Zero means that both are
	// sent.
	NoTraces, NoMetrics bool
	// Every is how often metrics are sent, at least 100 ms. Zero means what the
	// environment says, or a minute.
	Every time.Duration
	// MaxTraces is how many requests a second are followed at most; those above it
	// are answered as if they had no trace. Zero means 1000.
	MaxTraces int64
	// Gather returns where the metrics to be sent are, nil for nothing yet. It must be
	// safe for concurrent use. Zero means that there are none.
	Gather func() prometheus.Gatherer
	// Limits returns the limits in use with their words. It must be safe for
	// concurrent use. Zero means that spans name no rules.
	Limits func() []limits.Ref
	// Store is what spans call the store: memory, redis. Zero means nothing.
	Store string
	// Version is that of the binary. Zero means unknown.
	Version string
	// Log is told when a collector does not take what it is sent, at most once a
	// minute, and when it does again. Nil means nobody.
	Log *slog.Logger
	// Getenv reads the environment. Nil means os.Getenv. The exporters read theirs
	// themselves.
	Getenv func(string) string
}

// Telemetry sends traces and metrics. A nil Telemetry follows nothing. Safe for
// concurrent use.
type Telemetry struct {
	opt    Options
	tracer trace.Tracer // nil without traces
	carry  propagation.TraceContext
	names  names
	budget budget

	spans   *spanQueue
	traces  *exports
	metrics *exports

	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
	once    sync.Once
	closed  error
}

// New returns what sends to the collector that opt or the environment names, or nil
// if neither does. It connects in the background. The caller must Close it.
func New(opt Options) (*Telemetry, error) {
	opt = opt.orDefaults()
	traces, metrics := opt.planSignals()
	metrics.on = metrics.on && opt.Gather != nil
	if !traces.on && !metrics.on {
		return nil, nil
	}
	t := &Telemetry{opt: opt, names: names{list: opt.Limits}, budget: budget{most: opt.MaxTraces}}
	t.traces = newExports("traces", opt.Log)
	t.metrics = newExports("metrics", opt.Log)
	about, err := describe(opt.Version)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if traces.on {
		if err := t.openTraces(traces, about); err != nil {
			return nil, fmt.Errorf("telemetry: traces: %w", err)
		}
	}
	if metrics.on {
		if err := t.openMetrics(metrics, about); err != nil {
			return nil, errors.Join(fmt.Errorf("telemetry: metrics: %w", err), t.Close(context.Background()))
		}
	}
	return t, nil
}

// orDefaults returns opt with what is zero filled in.
func (opt Options) orDefaults() Options {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Getenv == nil {
		opt.Getenv = os.Getenv
	}
	if opt.MaxTraces == 0 {
		opt.MaxTraces = 1000
	}
	return opt
}

// Enabled reports whether the options or the environment say where something is sent
// to.
func (opt Options) Enabled() bool {
	opt.Log = nil
	opt = opt.orDefaults()
	traces, metrics := opt.planSignals()
	return traces.on || metrics.on
}

// describe says who sends. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over
// what is known here.
func describe(version string) (*resource.Resource, error) {
	own := []attribute.KeyValue{
		attribute.String("service.name", "weir"),
		attribute.String("service.instance.id", NewInstanceID()),
	}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	return resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(own...), resource.WithFromEnv())
}

// NewInstanceID returns a random UUID: the process, not its host, is the instance.
func NewInstanceID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Close sends what waits, until ctx ends, and stops. Called again, it returns what it
// returned.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.once.Do(func() { t.closed = t.close(ctx) })
	return t.closed
}

func (t *Telemetry) close(ctx context.Context) error {
	var errs []error
	if t.tracers != nil {
		errs = append(errs, t.tracers.Shutdown(ctx))
	}
	if t.meters != nil {
		errs = append(errs, t.meters.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// Tracing reports whether spans are made.
func (t *Telemetry) Tracing() bool { return t != nil && t.tracer != nil }

// Stats is what a Telemetry says of itself, since it was made.
type Stats struct {
	// SpansSent were taken by the collector, SpansLost were not, and SpansDropped
	// found too many waiting. Skipped counts requests above Options.MaxTraces.
	SpansSent, SpansLost, SpansDropped, Skipped uint64
	// TracesSent and MetricsSent count exports that were taken, TracesFailed and
	// MetricsFailed those that were not.
	TracesSent, TracesFailed, MetricsSent, MetricsFailed uint64
}

// Stats returns what was sent and what was not.
func (t *Telemetry) Stats() Stats {
	s := Stats{
		Skipped:    t.budget.skipped.Load(),
		TracesSent: t.traces.sent.Load(), TracesFailed: t.traces.failed.Load(),
		MetricsSent: t.metrics.sent.Load(), MetricsFailed: t.metrics.failed.Load(),
	}
	if t.spans != nil {
		s.SpansSent, s.SpansLost, s.SpansDropped = t.spans.sent.Load(), t.spans.lost.Load(), t.spans.dropped.Load()
	}
	return s
}
