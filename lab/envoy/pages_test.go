package envoy

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parse reads YAML.
func parse(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

// list and object are parts of a configuration.
type (
	list   = []any
	object = map[string]any
)

// setup is a configuration of Envoy that a test puts together.
type setup struct {
	// filters are the HTTP filters before the router.
	filters list
	// routes are the routes of the one virtual host; nil means that all goes to the
	// application.
	routes list
	// host and manager are further fields of the virtual host, and of the connection
	// manager.
	host, manager object
	// weirHTTP: the cluster weir speaks HTTP/1.1.
	weirHTTP bool
	// weir are further fields of the cluster weir.
	weir object
	// network are the network filters instead of the connection manager.
	network list
	// top are further fields of all.
	top object
}

// toApplication is a route for all paths, with further fields; action are those of its
// action.
func toApplication(action object, more object) object {
	route := object{"cluster": "application"}
	for k, v := range action {
		route[k] = v
	}
	r := object{"match": object{"prefix": "/"}, "route": route}
	for k, v := range more {
		r[k] = v
	}
	return r
}

// typed is a filter's typed_config.
func typed(kind string, config object) object {
	out := object{"@type": "type.googleapis.com/" + kind}
	for k, v := range config {
		out[k] = v
	}
	return out
}

const (
	kindHTTPOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	kindManager     = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	kindRateLimit   = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"
	kindPerRoute    = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
)

// cluster is one at a port of this machine; options are those of its protocol.
func cluster(name string, port int, options object) object {
	c := object{"name": name, "type": "STATIC", "connect_timeout": "1s", "load_assignment": object{"cluster_name": name,
		"endpoints": list{object{"lb_endpoints": list{object{"endpoint": object{"address": address(port)}}}}}}}
	if options != nil {
		c["typed_extension_protocol_options"] = object{kindHTTPOptions: typed(kindHTTPOptions, options)}
	}
	return c
}

func address(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

// bootstrap returns the whole configuration.
func (s setup) bootstrap(t testing.TB) string {
	t.Helper()
	if s.routes == nil {
		s.routes = list{toApplication(nil, nil)}
	}
	host := object{"name": "all", "domains": list{"*"}, "routes": s.routes}
	for k, v := range s.host {
		host[k] = v
	}
	router := object{"name": "envoy.filters.http.router", "typed_config": typed("envoy.extensions.filters.http.router.v3.Router", nil)}
	manager := object{
		"stat_prefix": "www", "use_remote_address": true, "upgrade_configs": list{object{"upgrade_type": "websocket"}},
		"route_config": object{"virtual_hosts": list{host}},
		"http_filters": append(s.filters[:len(s.filters):len(s.filters)], router),
	}
	for k, v := range s.manager {
		manager[k] = v
	}
	network := s.network
	if network == nil {
		network = list{object{"name": "envoy.filters.network.http_connection_manager", "typed_config": typed(kindManager, manager)}}
	}
	port, options := portWeirGRPC, object{"explicit_http_config": object{"http2_protocol_options": object{}}}
	if s.weirHTTP {
		port, options = portWeirHTTP, nil
	}
	all := object{
		"admin": object{"address": address(portAdmin)},
		"static_resources": object{
			"listeners": list{object{"name": "www", "address": address(portListener), "filter_chains": list{object{"filters": network}}}},
			"clusters": list{
				cluster("application", portApplication, object{"use_downstream_protocol_config": object{"http2_protocol_options": object{}}}),
				with(cluster("weir", port, options), s.weir),
			},
		},
	}
	for k, v := range s.top {
		all[k] = v
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rateLimitFilter is the filter by which Envoy asks the cluster weir, with further fields.
func rateLimitFilter(domain string, more object) object {
	config := object{"domain": domain, "timeout": "5s", "rate_limit_service": object{"transport_api_version": "V3",
		"grpc_service": object{"envoy_grpc": object{"cluster_name": "weir"}}}}
	for k, v := range more {
		config[k] = v
	}
	return object{"name": "envoy.filters.http.ratelimit", "typed_config": typed(kindRateLimit, config)}
}

// byHeader is the action that makes an entry of a header field.
func byHeader(name, key string) object {
	return object{"request_headers": object{"header_name": name, "descriptor_key": key}}
}

// A value of bytes that are not UTF-8 is counted by weir serve. Compatible mode does as
// the original, by which clients pass, and tells it; the route of the page closes it.
func runBytesThatAreNotUTF8(t *testing.T, blocks ...string) {
	closing := parse(t, blocks[0]).(list)
	limits := list{object{"actions": list{byHeader("x-user", "user")}}, object{"actions": list{object{"generic_key": object{"descriptor_value": "all"}}}}}
	conf := func(before ...any) string {
		return setup{filters: list{rateLimitFilter("shop", nil)}, routes: append(before, toApplication(object{"rate_limits": limits}, nil))}.bootstrap(t)
	}
	const rules = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}\n  - {key: generic_key, value: all, rate_limit: {unit: year, requests_per_unit: 1000}}\n"
	request := func(user string) string { return "GET / HTTP/1.1\r\nHost: a\r\nX-User: " + user + "\r\n\r\n" }
	ask := func(e *proxy, users ...string) (codes []int) {
		for _, user := range users {
			codes = append(codes, e.raw(t, request(user)))
		}
		return codes
	}
	bad := []string{"\xff", "\xfe", "\xff", "\xff", "caf\xe9", "\xed\xa0\x80"}

	app := serveApplication(t)
	weir := serve(t, "--rules", writeFile(t, "rules.yaml", "domain: shop\ndescriptors:\n  - {key: user, limit: 2/day}\n  - {key: generic_key, value: all, limit: 1000/day}\n"))
	want(t, "weir serve", ask(startEnvoy(t, conf(), ports(app.addr, weir)), bad...), []int{200, 200, 200, 429, 200, 200})

	said := map[string]string{}
	for _, argv := range [][]string{{command, "ratelimit"}, {builtRateLimit(t)}} {
		limiter := startRateLimit(t, argv, folderOf(writeFile(t, "config/shop.yaml", rules)), "LOG_LEVEL=warn")
		to := map[int]string{portApplication: app.addr, portWeirGRPC: limiter.addr}
		want(t, argv[0]+", open", ask(startEnvoy(t, conf(), to), bad...), times(len(bad), 200))
		closed := startEnvoy(t, conf(closing...), to)
		want(t, argv[0]+", closed", ask(closed, append(bad, "ann", "ann", "ann", "\t", "")...), append(times(len(bad), 400), 200, 200, 429, 200, 200))
		if got := closed.raw(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); got != 200 {
			t.Errorf("%s: without the field: %d", argv[0], got)
		}
		said[argv[0]] = limiter.Output()
	}
	if said := said[command]; !strings.Contains(said, "Envoy lets it pass") {
		t.Errorf("compatible mode tells nothing of it:\n%s", said)
	}
}
