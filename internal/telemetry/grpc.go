package telemetry

import (
	"context"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TraceGRPC returns what puts a span around each call whose trace is sampled, nil if
// there are no spans. header returns the values of a field that came with a call, by
// its name in lower case.
//
// otelgrpc is a handler of grpc's statistics. As a server's own it would cost every
// call, so it is told here of those that are followed alone.
func (t *Telemetry) TraceGRPC(header func(ctx context.Context, name string) []string) grpc.UnaryServerInterceptor {
	if !t.Tracing() {
		return nil
	}
	spans := otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.tracers), otelgrpc.WithPropagators(t.carry), otelgrpc.WithMeterProvider(sdkmetric.NewMeterProvider()),
		otelgrpc.WithSpanAttributes(attribute.String("ratelimit.frontend", "grpc")))
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if p := header(ctx, "traceparent"); len(p) != 1 || !sampled(p[0]) {
			return next(ctx, req)
		}
		return followCall(ctx, req, info, next, spans)
	}
}

// followCall is apart so that what it defers costs calls nothing that are not followed.
func followCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler, spans stats.Handler) (any, error) {
	ctx = spans.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: info.FullMethod})
	// A panic is answered so, further out.
	end := &stats.End{Error: status.Error(codes.Internal, "")}
	defer func() { spans.HandleRPC(ctx, end) }()
	res, err := next(ctx, req)
	end.Error = err
	return res, err
}
