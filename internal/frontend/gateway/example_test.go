package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// Two requests a minute from each address reach the application.
func Example() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer app.Close()
	upstream, err := url.Parse(app.URL)
	if err != nil {
		panic(err)
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(2, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	g, err := gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: lim},
		Default: gateway.Forward{Upstream: upstream},
	})
	if err != nil {
		panic(err)
	}
	front := httptest.NewServer(g)
	defer front.Close()
	for range 3 {
		res, err := http.Get(front.URL)
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
