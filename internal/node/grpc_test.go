package node_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// One node answers HTTP and gRPC by the same rules and counters, over TLS to
// clients of the right name alone.
func TestGRPC(t *testing.T) {
	dir := t.TempDir()
	c := local("3/hour by client_id")
	c.GRPC.TLS.Cert, c.GRPC.TLS.Key, _ = servertest.Certificate(t, dir, "weir")
	friend, _, pair := servertest.Certificate(t, t.TempDir(), "friend")
	c.GRPC.TLS.ClientCA, c.GRPC.ClientSAN = friend, "127.0.0.1"
	s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r := <-ready
	addr, ok := strings.CutPrefix(r.URLs["grpc"], "grpcs://")
	if !ok {
		t.Fatalf("gRPC is at %q", r.URLs["grpc"])
	}
	dial := func(certs ...tls.Certificate) *grpc.ClientConn {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: certs})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := dial(pair)
	for _, service := range []string{"", "weir.v1.LimitService", "envoy.service.ratelimit.v3.RateLimitService"} {
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %s, %v", service, res, err)
		}
	}
	own, err := weirpb.NewLimitServiceClient(conn).Check(ctx, &weirpb.CheckRequest{
		Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "client_id", Value: "1"}}}}})
	if err != nil || own.Decision.Remaining != 2 {
		t.Errorf("weir.v1: %s, %v", own, err)
	}
	envoy, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlspb.RateLimitRequest{Domain: "api",
		Descriptors: []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "client_id", Value: "1"}}}}})
	if err != nil || envoy.OverallCode != rlspb.RateLimitResponse_OK || envoy.Statuses[0].LimitRemaining != 1 {
		t.Errorf("Envoy: %s, %v", envoy, err)
	}
	if _, body := get(t, r.URLs["admin"]+"/metrics"); !strings.Contains(body, `weir_grpc_call_duration_seconds_count{code="OK",method="/weir.v1.LimitService/Check"} 1`) {
		t.Error("the call is not among the metrics")
	}
	if _, err := healthpb.NewHealthClient(dial()).Check(ctx, &healthpb.HealthCheckRequest{}); err == nil {
		t.Error("a client without a certificate was let in")
	}
	if !strings.Contains(r.String(), "gRPC     grpcs://"+addr) {
		t.Errorf("a person is told\n%s", r)
	}
}

func TestGRPCSettings(t *testing.T) {
	for flag, change := range map[string]func(*config.GRPC){
		"grpc.client_san":        func(g *config.GRPC) { g.ClientSAN = "x" },
		"grpc.max_streams":       func(g *config.GRPC) { g.MaxStreams = 0 },
		"grpc.max_calls":         func(g *config.GRPC) { g.MaxCalls = -1 },
		"grpc.max_unsent":        func(g *config.GRPC) { g.MaxUnsent = 1 },
		"grpc.max_message":       func(g *config.GRPC) { g.MaxMessage = 1 },
		"grpc.max_connections":   func(g *config.GRPC) { g.MaxConnections = -1 },
		"grpc.workers":           func(g *config.GRPC) { g.Workers = 1 << 20 },
		"grpc.call_timeout":      func(g *config.GRPC) { g.CallTimeout = 0 },
		"grpc.handshake_timeout": func(g *config.GRPC) { g.HandshakeTimeout = -1 },
		"grpc.max_age":           func(g *config.GRPC) { g.MaxAge = -1 },
		"grpc.tls.cert":          func(g *config.GRPC) { g.TLS.Key = "k" },
	} {
		c := local("3/hour by client_id")
		change(&c.GRPC)
		if _, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	c := local("3/hour by client_id")
	c.GRPC.Listen, c.GRPC.MaxStreams = "", 0
	s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
