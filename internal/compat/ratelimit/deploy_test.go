package ratelimit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

const deploy = "../../../deploy/"

// documents reads the YAML documents of a file.
func documents(t *testing.T, name string) (all []map[string]any) {
	t.Helper()
	data, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	for in := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		if err := in.Decode(&doc); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, doc)
	}
}

// variables checks that they are known, and returns those that a test can use:
// files and servers are elsewhere.
func variables(t *testing.T, env map[string]string) (usable []string) {
	t.Helper()
	known := map[string]bool{"GOMEMLIMIT": true} // Go's own
	for _, f := range settings.Fields() {
		known[f.Name] = true
	}
	for name, value := range env {
		if !known[name] {
			t.Errorf("there is no variable %s", name)
		}
		switch name {
		case "RUNTIME_ROOT", "REDIS_URL", "DEBUG_HOST":
		default:
			usable = append(usable, name+"="+value)
		}
	}
	if len(usable) < 3 {
		t.Errorf("only %d variables", len(usable))
	}
	return usable
}

// The environment of the manifests starts a node that answers by their rules.
func TestDeployedEnvironments(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	compose := map[string]string{}
	service := documents(t, "ratelimit/docker-compose.yaml")[0]["services"].(map[string]any)["ratelimit"].(map[string]any)
	for k, v := range service["environment"].(map[string]any) {
		compose[k] = v.(string)
	}
	rules, err := os.ReadFile(deploy + "ratelimit/config/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest, mounted := map[string]string{}, ""
	for _, doc := range documents(t, "kubernetes/ratelimit.yaml") {
		switch doc["kind"] {
		case "ConfigMap":
			mounted = doc["data"].(map[string]any)["shop.yaml"].(string)
		case "Deployment":
			pod := doc["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			for _, e := range pod["containers"].([]any)[0].(map[string]any)["env"].([]any) {
				manifest[e.(map[string]any)["name"].(string)] = e.(map[string]any)["value"].(string)
			}
		}
	}
	for _, tt := range []struct {
		env   map[string]string
		rules string
	}{{compose, string(rules)}, {manifest, mounted}} {
		root := rulesIn(t, map[string]string{"config/shop.yaml": tt.rules})
		n := start(t, program, append(variables(t, tt.env), "RUNTIME_ROOT="+root, "REDIS_URL="+redis.Addr)...)
		res, err := ask(t, n.dial(), "shop", "remote_address=203.0.113.7")
		if err != nil || res.Statuses[0].GetCurrentLimit().GetRequestsPerUnit() != 50 {
			t.Errorf("got %v, %v", res, err)
		}
		if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
			t.Errorf("/healthcheck: %d", code)
		}
	}
}

// Envoy's schema takes the file, and what its routes ask has limits.
func TestEnvoyBootstrap(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(documents(t, "envoy/ratelimit.yaml")[0])
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(text, b); err != nil {
		t.Fatal(err)
	}
	hcm, filter := &hcmv3.HttpConnectionManager{}, &ratelimitv3.RateLimit{}
	if err := b.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(hcm); err != nil {
		t.Fatal(err)
	}
	if err := hcm.HttpFilters[0].GetTypedConfig().UnmarshalTo(filter); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.ValidateAll(), hcm.ValidateAll(), filter.ValidateAll()); err != nil {
		t.Error(err)
	}
	clusters := map[string]bool{}
	for _, c := range b.StaticResources.Clusters {
		clusters[c.Name] = true
	}
	if to := filter.RateLimitService.GrpcService.GetEnvoyGrpc().ClusterName; !clusters[to] {
		t.Errorf("there is no cluster %q", to)
	}
	n := start(t, program, inPlace(filepath.Join(deploy, "ratelimit"))...)
	limits := hcm.GetRouteConfig().VirtualHosts[0].Routes[0].GetRoute().RateLimits
	for _, l := range limits {
		var entries []string
		for _, a := range l.Actions {
			if m := a.GetHeaderValueMatch(); m != nil {
				entries = append(entries, "header_match="+m.DescriptorValue)
			} else if a.GetRemoteAddress() != nil {
				entries = append(entries, "remote_address=203.0.113.7")
			}
		}
		res, err := ask(t, n.dial(), filter.Domain, entries...)
		if err != nil || res.Statuses[0].CurrentLimit == nil {
			t.Errorf("%s has no limit: %v, %v", strings.Join(entries, ","), res, err)
		}
	}
	if len(limits) != 2 {
		t.Errorf("%d descriptors", len(limits))
	}
}
