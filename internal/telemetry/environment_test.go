package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func TestPlan(t *testing.T) {
	type env = map[string]string
	const base, traces, metrics = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	off := plan{}
	http := plan{on: true, protocol: ProtocolHTTP}
	grpc := plan{on: true, protocol: ProtocolGRPC}
	at := func(p plan, url string) plan { p.url = url; return p }
	for name, c := range map[string]struct {
		opt             Options
		env             env
		traces, metrics plan
		warned          string
	}{
		"nothing":            {traces: off, metrics: off},
		"headers alone":      {env: env{"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}, traces: off, metrics: off},
		"an endpoint":        {env: env{base: "http://c:4318"}, traces: http, metrics: http},
		"of traces":          {env: env{traces: "http://c:4318"}, traces: http, metrics: off},
		"of metrics":         {env: env{metrics: "http://c:4318"}, traces: off, metrics: http},
		"the flag":           {opt: Options{Endpoint: "http://c:4318/"}, traces: at(http, "http://c:4318/v1/traces"), metrics: at(http, "http://c:4318/v1/metrics")},
		"a path":             {opt: Options{Endpoint: "http://c/otlp"}, traces: at(http, "http://c/otlp/v1/traces"), metrics: at(http, "http://c/otlp/v1/metrics")},
		"gRPC":               {opt: Options{Endpoint: "http://c:4317", Protocol: ProtocolGRPC}, traces: at(grpc, "http://c:4317"), metrics: at(grpc, "http://c:4317")},
		"gRPC there":         {env: env{base: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, traces: grpc, metrics: grpc},
		"for one":            {env: env{base: "http://c:4317", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, traces: http, metrics: grpc},
		"the flag wins":      {opt: Options{Protocol: ProtocolHTTP}, env: env{base: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, traces: http, metrics: http},
		"disabled":           {opt: Options{Endpoint: "http://c:4318"}, env: env{"OTEL_SDK_DISABLED": "TRUE"}, traces: off, metrics: off},
		"no traces":          {opt: Options{NoTraces: true}, env: env{base: "http://c:4318"}, traces: off, metrics: http},
		"none":               {env: env{base: "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, traces: http, metrics: off},
		"another exporter":   {env: env{base: "http://c:4318", "OTEL_TRACES_EXPORTER": "zipkin"}, traces: off, metrics: http, warned: "OTEL_TRACES_EXPORTER"},
		"another protocol":   {env: env{base: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, traces: http, metrics: http, warned: "using http/protobuf"},
		"a sampler":          {env: env{base: "http://c:4318", "OTEL_TRACES_SAMPLER": "always_on"}, traces: http, metrics: http, warned: "OTEL_TRACES_SAMPLER"},
		"a sampler for none": {env: env{"OTEL_TRACES_SAMPLER": "always_on"}, traces: off, metrics: off},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			c.opt.Log = slog.New(slog.NewTextHandler(&said, nil))
			c.opt.Getenv = func(name string) string { return c.env[name] }
			gotTraces, gotMetrics := c.opt.planSignals()
			if gotTraces != c.traces || gotMetrics != c.metrics {
				t.Errorf("got %+v and %+v, want %+v and %+v", gotTraces, gotMetrics, c.traces, c.metrics)
			}
			if (said.Len() > 0) != (c.warned != "") || !strings.Contains(said.String(), c.warned) {
				t.Errorf("said %q, want %q", said.String(), c.warned)
			}
			if on := c.opt.Enabled(); on != (c.traces.on || c.metrics.on) {
				t.Errorf("enabled: %t", on)
			}
		})
	}
}

func TestCheckEndpoint(t *testing.T) {
	for _, url := range []string{"localhost:4318", "grpc://a", "http://", "http://u:p@a", "http://a?b"} {
		if CheckEndpoint(url) == nil {
			t.Errorf("%s is taken", url)
		}
	}
}

func TestNewWithoutCollector(t *testing.T) {
	if tel, err := New(Options{Getenv: func(string) string { return "" }}); tel != nil || err != nil {
		t.Errorf("without a collector: %v, %v", tel, err)
	}
}

// The look at two digits never overlooks a trace that is sampled, whatever comes.
func FuzzSampled(f *testing.F) {
	for _, s := range []string{
		"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff-what-comes", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, parent string) {
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
		if trace.SpanContextFromContext(ctx).IsSampled() && !sampled(parent) {
			t.Errorf("%q is overlooked", parent)
		}
	})
}
