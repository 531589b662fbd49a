package middleware

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// behind returns a middleware of limits per client address.
func behind(store weir.Store, limits ...*weir.Limit) *httplimit.Middleware {
	limiter, err := weir.New(store, weir.Limits(limits), weir.Options{})
	if err != nil {
		panic(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: limiter})
	if err != nil {
		panic(err)
	}
	return m
}

func permin(name string, count int64) *weir.Limit {
	limit := weir.PerMinute(count, algorithm.FixedWindow)
	limit.Name = name
	return limit
}

// noon is a time that stands still, so that no window ends in an example.
func noon() int64 { return 1_700_049_600_000_000 }

// ask sends n requests and prints what is answered.
func ask(h http.Handler, n int, path string) {
	for range n {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(w.Code, w.Header().Values("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
	}
}

// With chi a middleware is for all routes (Use), a group, or one route (With).
func Example_chi() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	m, strict := behind(store, permin("all", 100)), behind(store, permin("reports", 1))
	reports := func(http.ResponseWriter, *http.Request) {}
	r := chi.NewRouter()
	r.Use(m.Handler)
	r.With(strict.Handler).Get("/reports", reports)
	r.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, chi.URLParam(r, "id")) })

	ask(r, 1, "/items/7")
	ask(r, 2, "/reports")
	// Output:
	// 200 ["all";q=100;w=60] 99
	// 200 ["all";q=100;w=60 "reports";q=1;w=60] 0
	// 429 ["all";q=100;w=60 "reports";q=1;w=60] 0
}
