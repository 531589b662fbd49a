package node_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/testing/otlptest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// parent returns the n-th trace and its traceparent.
func parent(n int, flags string) (id, value string) {
	id = fmt.Sprintf("%032x", n+1)
	return id, "00-" + id + "-00000000000000aa-" + flags
}

// tree returns the spans of a trace, each with the names of those above it, sorted;
// those that are alike, as two calls that fetch units, once.
func tree(spans []*tracepb.Span, trace string) []string {
	var out []string
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != trace {
			continue
		}
		path := s.Name
		for up := s; up != nil; {
			i := slices.IndexFunc(spans, func(o *tracepb.Span) bool { return bytes.Equal(o.SpanId, up.ParentSpanId) })
			if up = nil; i >= 0 {
				up = spans[i]
				path = up.Name + " > " + path
			}
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A node tells a collector of requests with a sampled trace, whichever way they came
// in, down to the calls of Redis; its gateway hands the trace on; and what Prometheus
// reads is sent as well.
func TestTelemetry(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	redis := servertest.Redis(t)
	for _, c := range []struct {
		name, protocol, store, limit string
		calls                        []string // of the store, beneath the first decision
	}{
		{"memory", telemetry.ProtocolHTTP, "memory:", "100/hour", nil},
		{"redis strict", telemetry.ProtocolGRPC, "redis://" + redis.Addr + "?timeout=10s&prefix=a", "5/hour", []string{"ratelimit.store redis"}},
		{"redis leased", telemetry.ProtocolHTTP, "redis://" + redis.Addr + "?timeout=10s&prefix=b", "100000/hour", []string{"ratelimit.store redis"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			col := otlptest.New()
			var passed http.Header
			upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r.Header }))
			defer upstream.Close()
			conf := local(c.limit+" by ip", c.limit+" by client_id")
			conf.Store, conf.Upstream, conf.Trust = c.store, upstream.URL, []string{"127.0.0.1", "203.0.113.77"}
			conf.ForwardAuth.Prefix, conf.Identity.Proxies.Trusted = "/auth", []string{"127.0.0.1"}
			conf.OTel.Protocol, conf.OTel.Interval = c.protocol, 100*time.Millisecond
			conf.OTel.Endpoint = col.Serve(t, c.protocol)
			s, err := node.New(conf, node.Build{Version: "v9"}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ready, ended := make(chan node.Ready, 1), make(chan error, 1)
			go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
			at := (<-ready).URLs

			send := func(path, body, traceparent string) {
				t.Helper()
				method := "GET"
				if body != "" {
					method = "POST"
				}
				r, err := http.NewRequest(method, at["http"]+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Traceparent", traceparent)
				r.Header.Set("X-Forwarded-For", "203.0.113.77")
				r.Header.Set("X-Forwarded-Uri", "/orders")
				r.Header.Set("X-Forwarded-Method", "GET")
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode/100 != 2 {
					t.Errorf("%s: %s", path, res.Status)
				}
			}
			conn, err := grpc.NewClient(strings.TrimPrefix(at["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()

			api, p := parent(0, "01")
			send("/shouldAllowRequest", `{"clientId":"sesame"}`, p)
			gateway, p := parent(1, "01")
			send("/orders/sesame", "", p)
			toUpstream := passed.Get("Traceparent")
			forward, p := parent(2, "01")
			send("/auth", "", p)
			own, p := parent(3, "01")
			if _, err := weirpb.NewLimitServiceClient(conn).Check(metadata.AppendToOutgoingContext(ctx, "traceparent", p), &weirpb.CheckRequest{
				Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "client_id", Value: "sesame"}}}}}); err != nil {
				t.Error(err)
			}
			envoy, p := parent(4, "01")
			if _, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.AppendToOutgoingContext(ctx, "traceparent", p), &rlspb.RateLimitRequest{Domain: "api",
				Descriptors: []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "client_id", Value: "sesame"}}}}}); err != nil {
				t.Error(err)
			}
			quiet, p := parent(5, "00")
			send("/shouldAllowRequest", `{"clientId":"sesame"}`, p)
			send("/", "", p)
			if passed.Get("Traceparent") != p {
				t.Errorf("a trace that is not sampled reaches the upstream as %q, not as %q", passed.Get("Traceparent"), p)
			}
			servertest.Await(t, "metrics", func() bool { return col.Metric("weir_decisions_total") != nil })
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}

			spans := col.Spans()
			for trace, top := range map[string]string{
				api: "POST /shouldAllowRequest", gateway: "GET", forward: "GET /auth",
				own: "weir.v1.LimitService/Check", envoy: "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
			} {
				want := []string{top, top + " > ratelimit.decide"}
				got := tree(spans, trace)
				if trace == api || trace == gateway {
					for _, call := range c.calls {
						want = append(want, top+" > ratelimit.decide > "+call)
					}
				} else if len(got) > len(want) {
					got = got[:len(want)] // what is held or remembered needs no call
				}
				if !slices.Equal(got, want) {
					t.Errorf("spans %q, want %q", got, want)
				}
			}
			if got := tree(spans, quiet); len(got) > 0 {
				t.Errorf("spans of a trace that is not sampled: %q", got)
			}
			for _, s := range spans {
				if strings.Contains(s.String(), "sesame") || strings.Contains(s.String(), "203.0.113.77") || strings.Contains(s.String(), "127.0.0.1") {
					t.Errorf("a span tells who asks: %s", s)
				}
				attrs := otlptest.Attributes(s.Attributes)
				kind, _, _ := strings.Cut(c.store, ":")
				if s.Name == "ratelimit.decide" && (attrs["ratelimit.store"] != kind || attrs["ratelimit.domain"] != "api" || attrs["ratelimit.decision"] != "allowed" || attrs["ratelimit.rule"] == nil || attrs["ratelimit.limit"] == nil) {
					t.Errorf("%v", attrs)
				}
				if hex.EncodeToString(s.TraceId) == gateway && s.Name == "GET" {
					if want := fmt.Sprintf("00-%s-%x-01", gateway, s.SpanId); toUpstream != want {
						t.Errorf("the upstream is told %q, want %q", toUpstream, want)
					}
				}
			}
			for _, name := range []string{"weir_otel_exports_total", "go_goroutines", "http.server.request.duration", "rpc.server.call.duration", "weir_http_request_duration_seconds"} {
				if col.Metric(name) == nil {
					t.Errorf("%s is not sent", name)
				}
			}
			var requests uint64
			for _, p := range col.Metric("http.server.request.duration").GetHistogram().GetDataPoints() {
				requests += p.Count
			}
			if requests != 5 {
				t.Errorf("%d requests over HTTP, want 5", requests)
			}
		})
	}
}

// The environment alone turns it on, and a collector that is not there changes nothing.
func TestTelemetryFromTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
	t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "100")
	conf := local("3/hour by client_id")
	s, err := node.New(conf, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	at := (<-ready).URLs
	servertest.Await(t, "a failed export", func() bool {
		_, text := get(t, at["admin"]+"/metrics")
		return strings.Contains(text, "weir_otel_exports_total{result=\"failure\",signal=\"metrics\"}") &&
			!strings.Contains(text, "weir_otel_exports_total{result=\"failure\",signal=\"metrics\"} 0")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTelemetrySettings(t *testing.T) {
	for flag, change := range map[string]func(*config.OTel){
		"--otel-endpoint: the endpoint": func(o *config.OTel) { o.Endpoint = "http://[" },
		"--otel-endpoint":               func(o *config.OTel) { o.Endpoint = "localhost:4318" },
		"otel.protocol":                 func(o *config.OTel) { o.Protocol = "http/json" },
		"otel.interval":                 func(o *config.OTel) { o.Interval = time.Millisecond },
		"otel.max_traces":               func(o *config.OTel) { o.MaxTraces = 0 },
	} {
		c := local("3/hour by client_id")
		change(&c.OTel)
		if _, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
