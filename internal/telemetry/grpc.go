package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// GRPC returns what puts a span around each call whose trace is sampled, nil if
// there are no spans. header returns the values of a field that came with a call, by
// its name in lower case.
func (t *Telemetry) GRPC(header func(ctx context.Context, name string) []string) grpc.UnaryServerInterceptor {
	if !t.Tracing() {
		return nil
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if p := header(ctx, "traceparent"); len(p) != 1 || !sampled(p[0]) {
			return next(ctx, req)
		}
		return t.call(ctx, req, info, next, header)
	}
}

func (t *Telemetry) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler, header func(context.Context, string) []string) (any, error) {
	carrier := propagation.MapCarrier{}
	for _, name := range []string{"traceparent", "tracestate"} {
		if v := header(ctx, name); len(v) > 0 {
			carrier[name] = strings.Join(v, ",")
		}
	}
	in := t.carry.Extract(ctx, carrier)
	if !trace.SpanContextFromContext(in).IsSampled() || !t.budget.take() {
		return next(ctx, req)
	}
	name := strings.TrimPrefix(info.FullMethod, "/")
	in, span := t.tracer.Start(in, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", name),
		attribute.String("ratelimit.frontend", "grpc")))
	// A panic is answered further out.
	defer span.End()
	res, err := next(in, req)
	code := status.Code(err)
	word := upperSnake(code.String())
	span.SetAttributes(attribute.String("rpc.response.status_code", word))
	switch code {
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		span.SetAttributes(attribute.String("error.type", word))
		span.SetStatus(codes.Error, "")
	}
	return res, err
}
