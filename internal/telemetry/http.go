package telemetry

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirlimit/weir/internal/recorder"
)

// traceparent is the field of W3C Trace Context, as net/http has it in a map.
const traceparent = "Traceparent"

// sampled reports whether the trace that a traceparent names was sampled by whoever
// sends it. It reads two digits; what else is wrong with it is found when it is read
// as a whole.
//
// Source: W3C Trace Context, §3.2.2: version-traceid-parentid-flags.
func sampled(parent string) bool {
	const low = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0")
	if len(parent) <= low {
		return false
	}
	switch c := parent[low]; {
	case c >= '0' && c <= '9':
		return (c-'0')&1 == 1
	case c >= 'a' && c <= 'f':
		return (c-'a'+10)&1 == 1
	}
	return false
}

// HTTPOptions says what a handler is.
type HTTPOptions struct {
	// Frontend names it: httpapi, gateway, forwardauth.
	Frontend string
	// Route returns the path that a request is served under, if it is one of a
	// few. Nil means that there is none.
	Route func(*http.Request) string
	// Pass makes what next gets a child of the span: for one that forwards requests
	// with their header.
	Pass bool
}

// TraceHTTP returns next with a span around each request whose trace is sampled. Others
// go straight to it.
func (t *Telemetry) TraceHTTP(opt HTTPOptions, next http.Handler) http.Handler {
	if !t.Tracing() {
		return next
	}
	traced := otelhttp.NewHandler(t.describeRequests(opt, next), opt.Frontend,
		otelhttp.WithTracerProvider(t.tracers), otelhttp.WithPropagators(t.carry), otelhttp.WithMeterProvider(sdkmetric.NewMeterProvider()),
		otelhttp.WithSpanOptions(trace.WithAttributes(attribute.String("ratelimit.frontend", opt.Frontend))),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			return strings.TrimSpace(recorder.Method(r.Method) + " " + opt.route(r))
		}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request with two parents has none.
		if p := r.Header[traceparent]; len(p) == 1 && sampled(p[0]) {
			traced.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (opt *HTTPOptions) route(r *http.Request) string {
	if opt.Route == nil {
		return ""
	}
	return opt.Route(r)
}

// describeRequests returns next, with what is told of its requests beside what otelhttp
// tells.
func (t *Telemetry) describeRequests(opt HTTPOptions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		span := trace.SpanFromContext(r.Context())
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		if route := opt.route(r); route != "" {
			span.SetAttributes(attribute.String("http.route", route))
		}
		if opt.Pass {
			t.carry.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
		}
		finished := false
		defer func() {
			if !finished { // a proxy that loses its upstream panics
				span.SetAttributes(attribute.String("error.type", "aborted"))
				span.SetStatus(codes.Error, "")
			}
		}()
		next.ServeHTTP(w, r)
		finished = true
	})
}

// budget is a sampler that bounds how many requests are followed in a second: whoever
// asks says that a trace is sampled, and may be anybody. Safe for concurrent use.
type budget struct {
	most    int64
	second  atomic.Int64 // since the Unix epoch
	taken   atomic.Int64 // in that second, give or take a few where it begins
	skipped atomic.Uint64
}

// ShouldSample implements sdktrace.Sampler.
func (b *budget) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if b.takeSpan() {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return sdktrace.NeverSample().ShouldSample(p)
}

// Description implements sdktrace.Sampler.
func (b *budget) Description() string { return "so many a second" }

func (b *budget) takeSpan() bool {
	now := time.Now().Unix()
	if was := b.second.Load(); was != now && b.second.CompareAndSwap(was, now) {
		b.taken.Store(0)
	}
	if b.taken.Add(1) > b.most {
		b.skipped.Add(1)
		return false
	}
	return true
}

// follows reports whether the span that ctx is in is recorded.
func follows(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }
