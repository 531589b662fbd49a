// Package otlptest is an OpenTelemetry collector for tests: it takes OTLP over HTTP
// and gRPC on loopback, and keeps what it was sent.
package otlptest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/telemetry"
	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Collector keeps what it is sent. Safe for concurrent use.
type Collector struct {
	mu       sync.Mutex
	spans    []*trace.Span
	metrics  map[string]*metrics.Metric // the newest of each name
	resource map[string]string
	header   http.Header

	unavailable atomic.Bool
	stall       atomic.Pointer[chan struct{}]
	calls       atomic.Int64
}

// New returns a collector that listens nowhere yet.
func New() *Collector {
	return &Collector{metrics: make(map[string]*metrics.Metric), resource: make(map[string]string)}
}

// Serve listens for OTLP by a protocol of package telemetry until the test ends, and
// returns its URL.
func (c *Collector) Serve(t testing.TB, protocol string) string {
	t.Helper()
	if protocol == telemetry.ProtocolGRPC {
		return c.GRPC(t)
	}
	return c.HTTP(t)
}

// HTTP listens for OTLP over HTTP until the test ends, and returns its URL.
func (c *Collector) HTTP(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		c.post(w, r, new(tracecollector.ExportTraceServiceRequest), new(tracecollector.ExportTraceServiceResponse))
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		c.post(w, r, new(metricscollector.ExportMetricsServiceRequest), new(metricscollector.ExportMetricsServiceResponse))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { c.Go(); srv.Close() })
	return srv.URL
}

func (c *Collector) post(w http.ResponseWriter, r *http.Request, req, res proto.Message) {
	const most = 32 << 20
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(io.LimitReader(z, most))
		}
	}
	if err == nil {
		err = proto.Unmarshal(body, req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.header = r.Header.Clone()
	c.mu.Unlock()
	if err := c.take(r.Context(), req); err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out, err := proto.Marshal(res)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out) // whoever has gone is not told
}

// GRPC listens for OTLP over gRPC until the test ends, and returns its URL.
func (c *Collector) GRPC(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(srv, traceService{c: c})
	metricscollector.RegisterMetricsServiceServer(srv, metricsService{c: c})
	var done sync.WaitGroup
	done.Go(func() { _ = srv.Serve(ln) }) // ends with Stop
	t.Cleanup(func() { c.Go(); srv.Stop(); done.Wait() })
	return "http://" + ln.Addr().String()
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	c *Collector
}

// Export implements the service.
func (s traceService) Export(ctx context.Context, req *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	if err := s.c.take(ctx, req); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return new(tracecollector.ExportTraceServiceResponse), nil
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	c *Collector
}

// Export implements the service.
func (s metricsService) Export(ctx context.Context, req *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	if err := s.c.take(ctx, req); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return new(metricscollector.ExportMetricsServiceResponse), nil
}

// take keeps what came.
func (c *Collector) take(ctx context.Context, req proto.Message) error {
	c.calls.Add(1)
	if gate := c.stall.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.unavailable.Load() {
		return errors.New("the collector is away")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch req := req.(type) {
	case *tracecollector.ExportTraceServiceRequest:
		for _, r := range req.ResourceSpans {
			c.about(r.GetResource().GetAttributes())
			for _, s := range r.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	case *metricscollector.ExportMetricsServiceRequest:
		for _, r := range req.ResourceMetrics {
			c.about(r.GetResource().GetAttributes())
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					c.metrics[m.Name] = m
				}
			}
		}
	}
	return nil
}

func (c *Collector) about(attrs []*common.KeyValue) {
	for _, kv := range attrs {
		c.resource[kv.Key] = kv.Value.GetStringValue()
	}
}

// SetUnavailable makes the collector answer that it is not there, or takes that back.
func (c *Collector) SetUnavailable(unavailable bool) { c.unavailable.Store(unavailable) }

// Stall has calls wait until Go is called.
func (c *Collector) Stall() {
	gate := make(chan struct{})
	c.stall.Store(&gate)
}

// Go ends a stall.
func (c *Collector) Go() {
	if gate := c.stall.Swap(nil); gate != nil {
		close(*gate)
	}
}

// Calls returns how often something was sent.
func (c *Collector) Calls() int64 { return c.calls.Load() }

// Spans returns the spans that were taken, in the order in which they came.
func (c *Collector) Spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*trace.Span(nil), c.spans...)
}

// Span returns the first span of a name in a trace, nil if there is none.
func (c *Collector) Span(traceID []byte, name string) *trace.Span {
	for _, s := range c.Spans() {
		if s.Name == name && (traceID == nil || bytes.Equal(s.TraceId, traceID)) {
			return s
		}
	}
	return nil
}

// Metric returns the newest that was sent of a metric, nil if none was.
func (c *Collector) Metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Names returns the names of the metrics that were sent.
func (c *Collector) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, 0, len(c.metrics))
	for name := range c.metrics {
		out = append(out, name)
	}
	return out
}

// Resource returns an attribute of what sends.
func (c *Collector) Resource(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[key]
}

// Header returns a header field of what was last sent over HTTP.
func (c *Collector) Header(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header.Get(key)
}

// Attributes returns attributes by name, as text, whole numbers, floats and booleans.
func Attributes(kvs []*common.KeyValue) map[string]any {
	out := make(map[string]any, len(kvs))
	for _, kv := range kvs {
		switch v := kv.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		default:
			out[kv.Key] = kv.Value.String()
		}
	}
	return out
}
