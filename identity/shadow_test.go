package identity_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// A route that an earlier one leaves no requests is told, and no other.
func TestShadowedRoutes(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	f := func(shadowed bool, first, second identity.Route) {
		t.Helper()
		_, err := r.Routes([]identity.Route{first, second})
		if (err != nil) != shadowed || err != nil && !strings.Contains(err.Error(), "route 2") {
			t.Errorf("%+v before %+v: %v", first, second, err)
		}
	}
	path := func(p string, methods ...string) identity.Route { return identity.Route{Path: p, Methods: methods} }
	host := func(h, p string) identity.Route { return identity.Route{Host: h, Path: p} }
	f(true, path("/*"), path("/login"))
	f(true, path(""), path("/login"))
	f(true, path("/*"), path(""))
	f(true, path("/login"), path("/login/"))
	f(true, path("/api/*"), path("/api"))
	f(true, path("/api/*"), path("/api/v1/*"))
	f(true, path("/u/{id}"), path("/u/me"))
	f(true, path("/u/{id}"), path("/u/{name}"))
	f(true, path("/u/{id}/*"), path("/u/me/posts"))
	f(true, path("/a"), path("/a", "POST"))
	f(true, path("/a", "get", "POST"), path("/a", "POST"))
	f(true, path("/a", "GET"), path("/a", "HEAD"))
	f(true, host("*.example.com", "/*"), host("api.EXAMPLE.com", "/x"))
	f(true, host("", "/*"), host("*.example.com", ""))
	f(true, host("*.example.com", "/*"), host("*.eu.example.com", "/*"))
	f(false, path("/login"), path("/*"))
	f(false, path("/login"), path("/Login"))
	f(false, path("/u/me"), path("/u/{id}"))
	f(false, path("/api"), path("/api/*"))
	f(false, path("/api/*"), path("/apis"))
	f(false, path("/u/{id}"), path("/u"))
	f(false, path("/u/{id}"), path("/u/{id}/posts"))
	f(false, path("/a", "POST"), path("/a"))
	f(false, path("/a", "POST"), path("/a", "POST", "PUT"))
	f(false, host("api.example.com", "/*"), host("", "/x"))
	f(false, host("*.example.com", "/*"), host("example.com", "/x"))
	f(false, host("*.example.com", "/*"), host("badexample.com", "/x"))
}
