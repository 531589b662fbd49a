package forwardauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/store/memory"
)

// A proxy on this machine asks about the requests of a client: two a minute are
// let through.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(2, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	who, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: "X-Forwarded-For"}})
	if err != nil {
		panic(err)
	}
	h, err := forwardauth.New(forwardauth.Options{Authorize: authorize.Options{Limiter: lim, Identity: who}})
	if err != nil {
		panic(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	for range 3 {
		req, err := http.NewRequest("GET", srv.URL+"/auth", nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("X-Forwarded-For", "203.0.113.7")
		req.Header.Set("X-Forwarded-Method", "POST")
		req.Header.Set("X-Forwarded-Uri", "/login")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
		fmt.Println(res.StatusCode, res.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}
