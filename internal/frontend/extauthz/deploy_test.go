package extauthz_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	ext_authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// bootstrap reads one of Envoy's files as Envoy does: no field but its schema's.
func bootstrap(t *testing.T, name string) *bootstrapv3.Bootstrap {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "envoy", name))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(text, b); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return b
}

// unpack reads a typed_config.
func unpack[M interface {
	*T
	proto.Message
	ValidateAll() error
}, T any](t *testing.T, a *anypb.Any) M {
	t.Helper()
	m := M(new(T))
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Error(err)
	}
	return m
}

// Envoy's schema takes the files of deploy/envoy, and what they ask for is what
// is served here.
func TestEnvoyFiles(t *testing.T) {
	filters := map[string]*ext_authzv3.ExtAuthz{}
	for _, name := range []string{"ext-authz-grpc.yaml", "ext-authz-http.yaml"} {
		b := bootstrap(t, name)
		clusters := map[string]bool{}
		for _, c := range b.GetStaticResources().GetClusters() {
			clusters[c.GetName()] = true
		}
		hcm := unpack[*hcmv3.HttpConnectionManager](t, b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig())
		f := unpack[*ext_authzv3.ExtAuthz](t, hcm.GetHttpFilters()[0].GetTypedConfig())
		filters[name] = f
		for _, r := range hcm.GetRouteConfig().GetVirtualHosts()[0].GetRoutes() {
			if !clusters[r.GetRoute().GetCluster()] {
				t.Errorf("%s: no cluster %q", name, r.GetRoute().GetCluster())
			}
			for _, own := range r.GetTypedPerFilterConfig() {
				in := recorded(t, "http1")
				in.Attributes.ContextExtensions = unpack[*ext_authzv3.ExtAuthzPerRoute](t, own).GetCheckSettings().GetContextExtensions()
				res, err := build(t, weir.PerHour(11, algorithm.FixedWindow)).svc.Check(context.Background(), in)
				if err != nil || headers(t, res)["x-ratelimit-remaining"] != "OVERWRITE_IF_EXISTS_OR_ADD 1" {
					t.Errorf("%s: a route of its own words: %v %v", name, res, err)
				}
			}
		}
		if to := f.GetGrpcService().GetEnvoyGrpc().GetClusterName() + f.GetHttpService().GetServerUri().GetCluster(); !clusters[to] {
			t.Errorf("%s: no cluster %q", name, to)
		}
		if last := hcm.GetHttpFilters()[len(hcm.GetHttpFilters())-1].GetName(); last != "envoy.filters.http.router" {
			t.Errorf("%s: the last filter is %s", name, last)
		}
	}
	if got := filters["ext-authz-http.yaml"].GetHttpService().GetPathPrefix(); got != "/auth:deny=429" {
		t.Errorf("the prefix is %q", got)
	}
	if !filters["ext-authz-grpc.yaml"].GetEncodeRawHeaders() {
		t.Error("header fields are joined")
	}
}
