package main_test

import (
	"context"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Envoy asks on the gRPC port, by the rules and routes of the configuration,
// and one that is not told to answer does not.
func TestExtAuthz(t *testing.T) {
	rules := servertest.File(t, "rules.yaml", `
domain: api
descriptors:
  - key: remote_address
    limit: 2/hour
    algorithm: fixed_window
`)
	routes := routesOf(t, `
  - {path: /health, unlimited: true}
  - {path: /export, cost: 2}
`)
	dial := func(args ...string) *grpc.ClientConn {
		t.Helper()
		n := serve(t, append([]string{"--grpc", "127.0.0.1:0", "--rules", rules}, args...)...)
		conn, err := grpc.NewClient(n.Listening("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ask := func(c *grpc.ClientConn, client, path string) (*authv3.CheckResponse, error) {
		return authv3.NewAuthorizationClient(c).Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: client}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "shop.example"}},
		}})
	}
	c := dial("--ext-authz", "--config", routes)
	for _, q := range []struct {
		client, path string
		want         int32
	}{{"203.0.113.1", "/", 0}, {"203.0.113.1", "/x", 0}, {"203.0.113.1", "/", 429}, {"203.0.113.1", "/health", 0}, {"203.0.113.1", "/health/", 0}, {"203.0.113.1", "/%68ealth", 429}, {"203.0.113.1", "//health/", 400},
		{"203.0.113.2", "/export", 0}, {"203.0.113.2", "/", 429}, {"2001:db8::1", "/export", 0}, {"2001:db8::2", "/", 429}} {
		res, err := ask(c, q.client, q.path)
		if err != nil || int32(res.GetDeniedResponse().GetStatus().GetCode()) != q.want || (q.want == 0) != (res.GetOkResponse() != nil) {
			t.Errorf("%s %s: %v %v, want %d", q.client, q.path, res, err, q.want)
		}
	}
	health, err := healthv1.NewHealthClient(c).Check(context.Background(), &healthv1.HealthCheckRequest{Service: "envoy.service.auth.v3.Authorization"})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v %v", health, err)
	}
	if res, err := ask(dial(), "203.0.113.1", "/"); err == nil || !strings.Contains(err.Error(), "unknown service") {
		t.Errorf("without --ext-authz: %v %v", res, err)
	}
}
