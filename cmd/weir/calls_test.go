package main_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// healthServer answers calls of gRPC.
func healthServer(t *testing.T) *grpc.Server {
	t.Helper()
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	t.Cleanup(s.Stop)
	return s
}

// call makes a call and returns its status.
func call(t *testing.T, addr, authority string) *grpcstatus.Status {
	t.Helper()
	c, err := grpc.NewClient(strings.TrimPrefix(addr, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(authority))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
	return grpcstatus.Convert(err)
}

// TestCallsAreRefusedInTheirWords: a client of gRPC hears from the gateway and the
// middleware what it understands: a status, and a sentence.
func TestCallsAreRefusedInTheirWords(t *testing.T) {
	ln := servertest.Listen(t)
	s := healthServer(t)
	go func() { _ = s.Serve(ln) }() // until it is stopped
	n := serve(t, "--config", servertest.Config(t, `
routes:
  - {host: app, upstream: "h2c://%s", limit: 1/hour by ip}
  - {host: away, upstream: "h2c://127.0.0.1:1"}
`, ln.Addr()))
	check := func(st *grpcstatus.Status, code codes.Code, message string) {
		t.Helper()
		if st.Code() != code || !strings.HasPrefix(st.Message(), message) || strings.Contains(st.Message(), "{") {
			t.Errorf("%s: %q, want %s: %q", st.Code(), st.Message(), code, message)
		}
	}
	check(call(t, n.http, "app"), codes.OK, "")
	check(call(t, n.http, "app"), codes.ResourceExhausted, "the limit ")
	check(call(t, n.http, "away"), codes.Unavailable, "the upstream cannot be reached")
	check(call(t, n.http, "elsewhere"), codes.Unimplemented, "nothing is served")

	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{weir.PerHour(1, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: limiter, Identity: identitytest.New(t, identity.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{Handler: m.Handler(healthServer(t)), Protocols: new(http.Protocols)}
	served.Protocols.SetUnencryptedHTTP2(true)
	in := servertest.Listen(t)
	go func() { _ = served.Serve(in) }() // until it is closed
	defer served.Close()
	check(call(t, in.Addr().String(), "app"), codes.OK, "")
	check(call(t, in.Addr().String(), "app"), codes.ResourceExhausted, "the limit ")
}
