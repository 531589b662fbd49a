package ratelimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// collector keeps the spans that it is sent, over HTTP and gRPC.
type collector struct {
	tracepb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]*spanpb.Span
	about string // the resource
}

func (c *collector) Export(_ context.Context, req *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.ResourceSpans {
		c.about = fmt.Sprint(r.Resource)
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				c.names[span.Name] = span
			}
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := &tracepb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), req) // never fails
}

func TestTracing(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	for _, protocol := range []string{"http", "grpc"} {
		c := &collector{names: map[string]*spanpb.Span{}}
		endpoint := ""
		if protocol == "http" {
			s := httptest.NewServer(c)
			defer s.Close()
			endpoint = s.URL
		} else {
			ln := servertest.Listen(t)
			g := grpc.NewServer()
			tracepb.RegisterTraceServiceServer(g, c)
			go g.Serve(ln)
			defer g.Stop()
			endpoint = "http://" + ln.Addr().String()
		}
		root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
		n := start(t, program, append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "TRACING_ENABLED=true",
			"TRACING_EXPORTER_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "TRACING_SERVICE_NAME=limits",
			"TRACING_SERVICE_NAMESPACE=edge", "TRACING_SAMPLING_RATE=0")...)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// Nothing is sampled but what the caller samples.
		const id = "80f198ee56343ba864fe8b2a57d3eff7"
		sampled := metadata.AppendToOutgoingContext(ctx, "b3", id+"-e457b5a2e4d86bd1-1")
		client := rlsv3.NewRateLimitServiceClient(n.dial())
		for _, ctx := range []context.Context{sampled, ctx} {
			if _, err := client.ShouldRateLimit(ctx, request("shop", "user=ann\u00e9")); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.proc.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, err := n.proc.Wait(ctx); err != nil || code != 0 {
			t.Fatalf("ended with %d, %v", code, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		var last []byte
		for _, name := range []string{"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "ShouldRateLimit Execution", "Redis Pipeline Execution"} {
			span := c.names[name]
			if span == nil {
				t.Fatalf("%s: no span %q among %v", protocol, name, c.names)
			}
			if fmt.Sprintf("%x", span.TraceId) != id || last != nil && string(span.ParentSpanId) != string(last) {
				t.Errorf("%s: span %q is of trace %x below %x, want %s below %x", protocol, name, span.TraceId, span.ParentSpanId, id, last)
			}
			last = span.SpanId
		}
		if len(c.names) != 3 {
			t.Errorf("%s: %d spans, want three", protocol, len(c.names))
		}
		for _, want := range []string{"limits", "edge", "service.instance.id"} {
			if !strings.Contains(c.about, want) {
				t.Errorf("%s: the resource %s lacks %s", protocol, c.about, want)
			}
		}
	}
}

// Traces that nobody takes cost nothing but a line in the log.
func TestTracingWithoutACollector(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT=100")...)
	if code, _ := n.post(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`); code != 200 {
		t.Errorf("/json: %d", code)
	}
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code, err := n.proc.Wait(ctx); err != nil || code != 0 || !strings.Contains(n.proc.Output(), "trace export failed") {
		t.Errorf("ended with %d, %v: %s", code, err, n.proc.Output())
	}
}
