package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/store/memory"
)

func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(1, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	api, err := httpapi.New(httpapi.Options{Limiter: lim})
	if err != nil {
		panic(err)
	}
	srv := httptest.NewServer(api)
	defer srv.Close()
	for range 2 {
		res, err := http.Post(srv.URL+"/shouldAllowRequest", "application/json", strings.NewReader(`{"clientId":"123"}`))
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			panic(err)
		}
		fmt.Println(res.StatusCode, string(body))
	}
	// Output:
	// 200 {"allowed":true}
	// 200 {"allowed":false}
}
