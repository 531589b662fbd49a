package ratelimit_test

import (
	"context"
	"net"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// As Envoy Gateway runs it: rules from a management server, no file anywhere.
func TestRulesOverXDS(t *testing.T) {
	t.Parallel()
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	set := func(version string, limit uint32) {
		t.Helper()
		config := &rlsconfv3.RateLimitConfig{Name: "shop", Domain: "shop", Descriptors: []*rlsconfv3.RateLimitDescriptor{{
			Key: "user", RateLimit: &rlsconfv3.RateLimitPolicy{Unit: rlsconfv3.RateLimitUnit_HOUR, RequestsPerUnit: limit},
		}}}
		if limit == 0 {
			config.Descriptors[0].Key = "" // refused
		}
		snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: {config}})
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshots.SetSnapshot(context.Background(), "gateway", snapshot); err != nil {
			t.Fatal(err)
		}
	}
	ln := servertest.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, server.NewServer(ctx, snapshots, nil))
	go g.Serve(ln)
	defer g.Stop()

	env := []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=gateway", "CONFIG_GRPC_XDS_SERVER_URL=" + ln.Addr().String(),
		"RUNTIME_ROOT=/nowhere/at/all", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true"}
	early := start(t, program, append(env, "FORCE_START_WITHOUT_INITIAL_CONFIG=true")...)
	if code, _ := get(t, early.http, "/healthcheck"); code != 500 {
		t.Errorf("/healthcheck without rules: %d, want 500", code)
	}
	late := launch(t, program, append(env, "LOG_LEVEL=info")...)
	servertest.Await(t, "it to wait for rules", func() bool { return strings.Contains(late.proc.Output(), "Waiting for initial") })
	if conn, err := net.Dial("tcp", late.http); err == nil {
		conn.Close()
		t.Error("it listens without rules")
	}
	set("1", 7)
	servertest.Await(t, "the late one to listen", func() bool { return strings.Contains(late.proc.Output(), "Listening for debug") })
	for _, n := range []*node{early, late} {
		n.config(line("shop", 7))
		if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
			t.Errorf("/healthcheck with rules: %d", code)
		}
	}
	set("2", 0)
	servertest.Await(t, "the set to be refused", func() bool {
		v, ok := early.value("ratelimit_service_config_load_error")
		return ok && v >= 1 // it is sent again and again
	})
	if got := early.rules(); got != line("shop", 7) {
		t.Errorf("after a refused set the rules are %q", got)
	}
	set("3", 9)
	early.config(line("shop", 9))
	const why = "Error loading new configuration: shop: descriptor has empty key"
	early.saw(why)
	if n := strings.Count(early.proc.Output(), why); n != 1 {
		t.Errorf("the log says %d times why, want once", n)
	}
}
