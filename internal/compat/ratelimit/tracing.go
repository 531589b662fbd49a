package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// tracing sends a span for each call, and for what it does inside.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	carry    propagation.TextMapPropagator
	log      *slog.Logger
}

// newTracing exports over OTLP, to where OTEL_EXPORTER_OTLP_ENDPOINT and its kin
// say. It begins at once; end must be called.
func newTracing(s *settings.Settings, log *slog.Logger) (*tracing, error) {
	client := otlptracehttp.NewClient()
	if s.TracingProtocol == "grpc" {
		client = otlptracegrpc.NewClient()
	}
	exporter, err := otlptrace.New(context.Background(), client)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	// The library tells of failed exports through a global alone.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error("trace export failed", "err", err) }))
	instance := cmp.Or(s.TracingServiceInstanceID, telemetry.NewInstanceID())
	t := &tracing{
		provider: sdktrace.NewTracerProvider(
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.TracingSamplingRate))),
			sdktrace.WithBatcher(exporter),
			sdktrace.WithResource(resource.NewSchemaless(
				attribute.String("service.name", s.TracingServiceName),
				attribute.String("service.namespace", s.TracingServiceNamespace),
				attribute.String("service.instance.id", instance),
			)),
		),
		carry: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, b3.New(), propagation.Baggage{}),
		log:   log,
	}
	t.tracer = t.provider.Tracer("ratelimit")
	log.Info("TracerProvider initialized", "protocol", s.TracingProtocol, "serviceName", s.TracingServiceName,
		"serviceNamespace", s.TracingServiceNamespace, "serviceInstanceId", instance, "samplingRate", s.TracingSamplingRate)
	return t, nil
}

// sendRemaining sends what waits, for five seconds at most. A node that has decided all
// that it was asked has ended well, whatever becomes of its traces.
func (t *tracing) sendRemaining() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Error("trace export failed", "err", err)
	}
}

// maxAttribute bounds the text of a request in a span, in bytes.
const maxAttribute = 4 << 10

// traceCall is called around every call.
func (t *tracing) traceCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	carrier := propagation.MapCarrier{}
	for key, values := range md {
		carrier[key] = values[0]
	}
	ctx = t.carry.Extract(ctx, carrier)
	full := strings.TrimPrefix(info.FullMethod, "/")
	service, method, _ := strings.Cut(full, "/")
	ctx, span := t.tracer.Start(ctx, full, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method)))
	defer span.End()
	inner := ctx
	if r, ok := req.(*rlsv3.RateLimitRequest); ok {
		var decide trace.Span
		inner, decide = t.tracer.Start(ctx, "ShouldRateLimit Execution", trace.WithAttributes(attribute.String("domain", r.Domain)))
		defer decide.End()
		if decide.IsRecording() {
			text := r.String()
			decide.SetAttributes(attribute.String("request string", strings.ToValidUTF8(text[:min(len(text), maxAttribute)], "")))
		}
	}
	res, err := next(inner, req)
	code := status.Code(err)
	span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
	switch code {
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		span.SetStatus(codes.Error, status.Convert(err).Message())
	}
	return res, err
}

// traceHandler is called around every request to /json.
func (t *tracing) traceHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.carry.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, "ShouldRateLimit Execution", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// traceStore returns the store with a span for each of its calls.
func (t *tracing) traceStore(s counter.Store) counter.Store {
	traced := tracedStore{s, t.tracer, "Redis Pipeline Execution"}
	switch s.(type) {
	case *counter.Memory:
		return s // it is no call
	case *counter.Memcached:
		traced.name = "Memcached Fetch Execution"
	}
	if l, ok := s.(counter.Looker); ok {
		return tracedLooker{traced, l}
	}
	return traced
}

type tracedStore struct {
	counter.Store
	tracer trace.Tracer
	name   string
}

type tracedLooker struct {
	tracedStore
	looker counter.Looker
}

// Add implements counter.Store.
func (s tracedStore) Add(ctx context.Context, now int64, hits []counter.Hit) error {
	return s.callInSpan(ctx, hits, func(ctx context.Context) error { return s.Store.Add(ctx, now, hits) })
}

// Look implements counter.Looker.
func (s tracedLooker) Look(ctx context.Context, now int64, hits []counter.Hit) error {
	return s.callInSpan(ctx, hits, func(ctx context.Context) error { return s.looker.Look(ctx, now, hits) })
}

func (s tracedStore) callInSpan(ctx context.Context, hits []counter.Hit, call func(context.Context) error) error {
	perSecond := 0
	for i := range hits {
		if hits[i].PerSecond {
			perSecond++
		}
	}
	ctx, span := s.tracer.Start(ctx, s.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.Int("hits", len(hits)), attribute.Int("hits per second", perSecond)))
	defer span.End()
	err := call(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
