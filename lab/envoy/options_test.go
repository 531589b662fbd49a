package envoy

import (
	"fmt"
	"net/http"
	"net/url"
	paths "path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
)

// countedBy are the values that requests were counted by, by the keys of entries. It limits
// nothing. Safe for concurrent use.
type countedBy struct {
	mu     sync.Mutex
	values map[string][]string
}

// Match implements weir.Rules.
func (c *countedBy) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range r.Descriptors {
		for _, e := range d.Entries {
			c.values[e.Key] = append(c.values[e.Key], strings.Clone(e.Value))
		}
	}
	return dst
}

// take returns what was counted, and forgets it.
func (c *countedBy) take() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.values
	c.values = map[string][]string{}
	return taken
}

// serveCounting serves ext_authz over gRPC, which counts by path, method and a header.
func serveCounting(t *testing.T) (*countedBy, string) {
	t.Helper()
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	t.Cleanup(func() { store.Close() })
	c := &countedBy{values: map[string][]string{}}
	limiter, err := weir.New(store, c, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var by []identity.Descriptor
	for _, from := range []string{"path", "method", "header:X-Tenant"} {
		by = append(by, identity.Descriptor{Entries: []identity.EntryFrom{{From: from}}})
	}
	service, err := extauthz.New(extauthz.Options{Authorize: authorize.Options{Limiter: limiter, Identity: who, Routes: []identity.Route{{Descriptors: by}}}})
	if err != nil {
		t.Fatal(err)
	}
	ln := servertest.Listen(t)
	server := grpc.NewServer()
	service.Register(server)
	go func() { _ = server.Serve(ln) }() // until it is stopped
	t.Cleanup(server.Stop)
	return c, ln.Addr().String()
}

// extAuthzFilter asks the cluster weir as deploy/envoy/ext-authz-grpc.yaml has it.
func extAuthzFilter() object {
	return object{"name": "envoy.filters.http.ext_authz", "typed_config": typed("envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", object{
		"transport_api_version": "V3", "encode_raw_headers": true, "status_on_error": object{"code": "ServiceUnavailable"},
		"grpc_service": object{"timeout": "5s", "envoy_grpc": object{"cluster_name": "weir"}}})}
}

// pathsRead are what routers find in the target that a server gets: as it is, decoded,
// cleaned, without parameters, and with backslashes that are slashes.
func pathsRead(t *testing.T, target string) (all []string) {
	t.Helper()
	target, _, _ = strings.Cut(target, "?")
	bare, _, _ := strings.Cut(target, ";")
	for _, written := range []string{target, bare} {
		decoded, err := url.PathUnescape(written)
		if err != nil {
			t.Fatalf("%q has passed: %v", target, err)
		}
		all = append(all, paths.Clean(written), paths.Clean(decoded), paths.Clean(strings.ReplaceAll(decoded, `\`, "/")))
	}
	return all
}

// hasPath reports whether a path was counted, which stands there escaped.
func hasPath(counted []string, p string) bool {
	return slices.ContainsFunc(counted, func(c string) bool {
		decoded, err := url.PathUnescape(c)
		return c == p || err == nil && decoded == p
	})
}

// By whatever options Envoy changes paths or fields, what the application is served has
// been counted, or the request is refused.
func TestOptionsOfPathsAndFields(t *testing.T) {
	processes(t)
	app := serveApplication(t)
	counted, weir := serveCounting(t)
	targets := []string{"/admin", "/admin/", "//admin", "///admin", "/x//admin", "/x/../admin", "/x/%2e%2e/admin", "/x/%2E./admin", "/./admin", "/admin/.", "/%61dmin", "/%2561dmin", "/admin%2f", "/%2fadmin", "/x%2f..%2fadmin",
		"/x%2F%2e%2e%2fadmin", "/x%5c..%5cadmin", `/x\..\admin`, `\admin`, "/x/..;/admin", "/x/..;a=b/admin", "/admin;a=b", "/admin%3ba", "/admin?x=/../y", "/x/..%00/admin", "/ADMIN", "/admin%", "/admin%c0%af", "/x/%252e%252e/admin", "http://a/x/../admin"}
	fields := [][]string{{"X-Tenant: small"}, {"X_Tenant: large"}, {"X-Tenant: small", "X_Tenant: large"}, {"x_tenant: a", "X_TENANT: b", "X-Tenant: c"}}
	var passed sync.Map
	for _, escaped := range []string{"KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD"} {
		for i, underscores := range []string{"ALLOW", "REJECT_REQUEST", "DROP_HEADER", "ALLOW"} {
			manager := object{"normalize_path": i&1 != 0, "merge_slashes": i&2 != 0, "path_with_escaped_slashes_action": escaped,
				"common_http_protocol_options": object{"headers_with_underscores_action": underscores}}
			e := startEnvoy(t, setup{filters: list{extAuthzFilter()}, manager: manager}.bootstrap(t), map[int]string{portApplication: app.addr, portWeirGRPC: weir})
			ask := func(target string, lines []string) {
				counted.take()
				app.requests()
				code := e.raw(t, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+strings.Join(append(slices.Clone(lines), "", ""), "\r\n"))
				by, what := counted.take(), fmt.Sprintf("%v: %q %q (%d)", manager, target, lines, code)
				for _, r := range app.requests() {
					passed.Store(target, true)
					for _, p := range pathsRead(t, r.RequestURI) {
						if !hasPath(by["path"], p) {
							t.Errorf("%s: the application is served %q, read as %q; counted were %q", what, r.RequestURI, p, by["path"])
						}
					}
					for key, values := range r.Header {
						if !identity.SameField(key, "x-tenant") {
							continue
						}
						for _, v := range values {
							if !slices.Contains(by["header:X-Tenant"], v) {
								t.Errorf("%s: the application has %s: %q; counted were %q", what, key, v, by["header:X-Tenant"])
							}
						}
					}
				}
			}
			for _, target := range targets {
				ask(target, nil)
			}
			for _, lines := range fields {
				ask("/admin", lines)
			}
			if err := e.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	passed.Range(func(any, any) bool { n++; return true })
	if n < 5 {
		t.Errorf("%d targets have passed: that tries little", n)
	}
}

// A tunnel that Envoy opens for CONNECT was counted as one, by its method and address, or it
// is refused.
func TestConnectIsCounted(t *testing.T) {
	processes(t)
	app := serveApplication(t)
	counted, weir := serveCounting(t)
	e := startEnvoy(t, setup{
		filters: list{extAuthzFilter()},
		manager: object{"upgrade_configs": list{object{"upgrade_type": "CONNECT"}}, "http2_protocol_options": object{"allow_connect": true}},
		routes: list{object{"match": object{"connect_matcher": object{}}, "route": object{"cluster": "application", "upgrade_configs": list{object{"upgrade_type": "CONNECT", "connect_config": object{}}}}},
			toApplication(nil, nil)},
	}.bootstrap(t), map[int]string{portApplication: app.addr, portWeirGRPC: weir})
	for i, head := range []string{"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "CONNECT /admin HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT http://a/admin HTTP/1.1\r\nHost: a\r\n\r\n", "connect a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"} {
		counted.take()
		code := e.raw(t, head)
		by := counted.take()
		if opened := code == http.StatusOK; opened != (i == 0) || opened != slices.Contains(by["method"], "CONNECT") {
			t.Errorf("%q gets %d, and was counted by %v", head, code, by)
		}
	}
}
