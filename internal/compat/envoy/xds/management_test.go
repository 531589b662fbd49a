package xds_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// management is a management server of go-control-plane, as Envoy Gateway's is.
type management struct {
	Addr string

	t     *testing.T
	cache cache.SnapshotCache
	node  string // whose rules Set sets

	mu       sync.Mutex
	requests []*discoveryv3.DiscoveryRequest
	headers  metadata.MD
	stop     func()
}

// startManagement listens on addr, a free port if that is empty.
func startManagement(t *testing.T, addr string, conf *tls.Config) *management {
	t.Helper()
	m := &management{Addr: addr, t: t, node: "default", cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	if addr == "" {
		m.Addr = "127.0.0.1:0"
	}
	m.Start(conf)
	t.Cleanup(m.Stop)
	return m
}

func (m *management) Start(conf *tls.Config) {
	m.t.Helper()
	ln, err := net.Listen("tcp", m.Addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Addr = ln.Addr().String()
	var opts []grpc.ServerOption
	if conf != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(conf)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := grpc.NewServer(opts...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, m.cache, server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.headers, _ = metadata.FromIncomingContext(ctx)
			return nil
		},
		StreamRequestFunc: func(_ int64, req *discoveryv3.DiscoveryRequest) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.requests = append(m.requests, req)
			return nil
		},
	}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	var once sync.Once
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop = func() {
		once.Do(func() {
			s.Stop()
			cancel()
			<-done
		})
	}
}

// Stop breaks every connection off.
func (m *management) Stop() {
	m.mu.Lock()
	stop := m.stop
	m.mu.Unlock()
	stop()
}

// Set gives the node a set of rules.
func (m *management) Set(version string, domains ...string) {
	m.t.Helper()
	var rs []types.Resource
	for i, d := range domains {
		rs = append(rs, config(fmt.Sprintf("%s-%d", version, i), d))
	}
	snapshot, err := cache.NewSnapshot(version, map[string][]types.Resource{xds.TypeURL: rs})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.cache.SetSnapshot(context.Background(), m.node, snapshot); err != nil {
		m.t.Fatal(err)
	}
}

// Requests returns what clients have sent so far.
func (m *management) Requests() []*discoveryv3.DiscoveryRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// AwaitAck waits until a client has accepted a version.
func (m *management) AwaitAck(version string) {
	m.t.Helper()
	servertest.Await(m.t, "an ACK of version "+version, func() bool {
		return slices.ContainsFunc(m.Requests(), func(r *discoveryv3.DiscoveryRequest) bool {
			return r.GetVersionInfo() == version && r.GetErrorDetail() == nil
		})
	})
}

// AwaitNack waits until a client has refused a set, and returns the request.
func (m *management) AwaitNack() (nack *discoveryv3.DiscoveryRequest) {
	m.t.Helper()
	servertest.Await(m.t, "a NACK", func() bool {
		for _, r := range m.Requests() {
			if r.GetErrorDetail() != nil {
				nack = r
			}
		}
		return nack != nil
	})
	return nack
}

func config(name, domain string) *rlsconfv3.RateLimitConfig {
	return &rlsconfv3.RateLimitConfig{Name: name, Domain: domain, Descriptors: []*rlsconfv3.RateLimitDescriptor{{
		Key: "user", RateLimit: &rlsconfv3.RateLimitPolicy{Unit: rlsconfv3.RateLimitUnit_MINUTE, RequestsPerUnit: 7},
	}}}
}
