package readers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyBehindProxies sends requests to the real servers through the gateway, through
// nginx that asks Weir by forward-auth, and through Envoy that asks by ext_authz: what a
// server finds in what reaches it has been counted.
func TestFamilyBehindProxies(t *testing.T) {
	if os.Getenv("WEIR_SOAK") != "1" {
		t.Skip("WEIR_SOAK=1 starts the servers")
	}
	at := startServers(t)
	d := openDoors(t)
	ways := map[string]string{"nginx": throughNginx(t, serve(t, d.forward)), "envoy": throughEnvoy(t, serveExtAuthz(t, d), at)}
	byReader := map[string]string{}
	for name, addr := range at {
		byReader[name] = serve(t, d.gatewayTo(&url.URL{Scheme: "http", Host: addr}, http.DefaultTransport))
	}
	m := maker{rand.New(rand.NewPCG(seeds.Of(t), 32))}
	served := map[string]int{}
	requests := append(once, ordinary...)
	for range 1_000 {
		requests = append(requests, m.next())
	}
	for _, r := range requests {
		for name, addr := range at {
			ways["gateway"] = byReader[name]
			asked := request{r.target, append(r.fields[:len(r.fields):len(r.fields)], "X-Reader: "+addr[strings.LastIndexByte(addr, ':')+1:])}
			for way, through := range ways {
				d.counted = counted{}
				found, ok, err := readBy(through, asked.head())
				if err != nil {
					t.Fatalf("%s through %s: %v", name, way, err)
				}
				if !ok {
					continue
				}
				served[way]++
				if what := disagreement(d.counted, found); what != "" {
					t.Errorf("%q %q through %s is counted by %+v: %s finds %s: %+v", r.target, r.fields, way, d.counted, name, what, found)
				}
			}
		}
	}
	for way, n := range served {
		if n < len(requests)*len(at)/8 {
			t.Errorf("only %d requests came through %s", n, way)
		}
	}
	t.Log(served)
}

// serve serves a handler and returns its address.
func serve(t testing.TB, h http.Handler) string {
	ln := servertest.Listen(t)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(ln) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	return ln.Addr().String()
}

func serveExtAuthz(t testing.TB, d *doors) string {
	ln := servertest.Listen(t)
	server := grpc.NewServer()
	d.ext.Register(server)
	go func() { _ = server.Serve(ln) }() // until it is stopped
	t.Cleanup(server.Stop)
	return ln.Addr().String()
}

// throughNginx starts an nginx that asks Weir as deploy/nginx has it.
func throughNginx(t testing.TB, weir string) string {
	return servertest.NginxServers(t, func(addr string) string {
		return fmt.Sprintf(`
server {
	listen %s;
	large_client_header_buffers 4 16k;
	location / {
		auth_request /_weir;
		proxy_pass http://127.0.0.1:$http_x_reader;
		proxy_set_header Host $http_host;
	}
	location = /_weir {
		internal;
		proxy_pass http://%s/auth;
		proxy_pass_request_body off;
		proxy_set_header Content-Length "";
		proxy_set_header X-Forwarded-For $remote_addr;
		proxy_set_header X-Forwarded-Method $request_method;
		proxy_set_header X-Forwarded-Uri $request_uri;
		proxy_set_header X-Forwarded-Host $http_host;
	}
}`, addr, weir)
	})
}

type object = map[string]any

func typed(name string, more object) object {
	more["@type"] = "type.googleapis.com/envoy.extensions." + name
	return more
}

// throughEnvoy starts an Envoy that asks Weir as deploy/envoy has it, but that it
// normalizes no path: what it changed, it would ask about.
func throughEnvoy(t testing.TB, weir string, at map[string]string) string {
	endpoint := func(addr string) object {
		host, port, _ := strings.Cut(addr, ":")
		return object{"address": object{"socket_address": object{"address": host, "port_value": json.Number(port)}}}
	}
	cluster := func(name, addr string, more object) object {
		more["name"], more["type"], more["load_assignment"] = name, "STATIC", object{"cluster_name": name,
			"endpoints": []any{object{"lb_endpoints": []any{object{"endpoint": endpoint(addr)}}}}}
		return more
	}
	clusters := []any{cluster("weir", weir, object{"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
		"upstreams.http.v3.HttpProtocolOptions", object{"explicit_http_config": object{"http2_protocol_options": object{}}})}})}
	var routes []any
	for name, addr := range at {
		clusters = append(clusters, cluster(name, addr, object{}))
		routes = append(routes, object{"match": object{"prefix": "/", "headers": []any{object{"name": "x-reader", "string_match": object{"exact": addr[strings.IndexByte(addr, ':')+1:]}}}},
			"route": object{"cluster": name}})
	}
	listen := servertest.FreePort(t)
	conf, err := json.Marshal(object{"static_resources": object{"clusters": clusters, "listeners": []any{object{"name": "l", "address": endpoint(fmt.Sprint("127.0.0.1:", listen))["address"],
		"filter_chains": []any{object{"filters": []any{object{"name": "envoy.filters.network.http_connection_manager", "typed_config": typed(
			"filters.network.http_connection_manager.v3.HttpConnectionManager", object{"stat_prefix": "x", "use_remote_address": true,
				"route_config": object{"virtual_hosts": []any{object{"name": "all", "domains": []any{"*"}, "routes": routes}}},
				"http_filters": []any{
					object{"name": "envoy.filters.http.ext_authz", "typed_config": typed("filters.http.ext_authz.v3.ExtAuthz", object{"transport_api_version": "V3",
						"encode_raw_headers": true, "grpc_service": object{"timeout": "5s", "envoy_grpc": object{"cluster_name": "weir"}}})},
					object{"name": "envoy.filters.http.router", "typed_config": typed("filters.http.router.v3.Router", object{})},
				}})}}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		t.Fatal(err)
	}
	p := servertest.Start(t, exec.Command(servertest.Built(t, "envoy"), "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"))
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) }) // it need not drain
	addr := fmt.Sprint("127.0.0.1:", listen)
	servertest.Await(t, "envoy", func() bool {
		_, _, err := readBy(addr, ordinary[0].head())
		return err == nil
	})
	return addr
}
