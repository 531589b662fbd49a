package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// noon is a time that stands still, so that no window ends in an example.
func noon() int64 { return 1_700_049_600_000_000 }

// Two requests a minute from each address, for every route but one.
func Example() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	limit := weir.PerMinute(2, algorithm.FixedWindow)
	limit.Name = "permin"
	limiter, err := weir.New(store, weir.Limits{limit}, weir.Options{})
	if err != nil {
		panic(err)
	}
	m, err := httplimit.New(httplimit.Options{
		Limiter: limiter,
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })
	server := httptest.NewServer(m.Handler(mux))
	defer server.Close()

	for _, path := range []string{"/", "/", "/healthz", "/"} {
		res, err := http.Get(server.URL + path)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
		fmt.Printf("%d %.5s %s %q\n", res.StatusCode, body, res.Header.Get("RateLimit"), res.Header.Get("Retry-After"))
	}
	// Output:
	// 200 hello "permin";r=1;t=60 ""
	// 200 hello "permin";r=0;t=60 ""
	// 200 ok  ""
	// 429 {"typ "permin";r=0;t=60 "60"
}

// A key, a cost and a body of one's own.
func ExampleOptions() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{weir.PerHour(100, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	m, err := httplimit.New(httplimit.Options{
		Limiter: limiter,
		Descriptors: func(r *http.Request, w *weir.Request) {
			user, _, _ := r.BasicAuth() // verified in front of this
			w.Descriptors = append(w.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: user}}})
		},
		Cost: func(r *http.Request) int64 {
			if r.Method == http.MethodGet {
				return 1
			}
			return 60
		},
		Refuse: func(w http.ResponseWriter, r *http.Request, why *httplimit.Refusal) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(why.Status)
			fmt.Fprintf(w, "slow down for %s", why.RetryAfter)
		},
	})
	if err != nil {
		panic(err)
	}
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "saved") }))
	for _, user := range []string{"ann", "ann", "bob"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", nil)
		r.SetBasicAuth(user, "secret")
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 saved
	// 429 slow down for 1h0m0s
	// 200 saved
}

// A fleet that shares a store stays within what a third party allows it.
func ExampleTransport() {
	thirdParty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer thirdParty.Close()
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	limit := weir.PerDay(2, algorithm.FixedWindow)
	limit.Name = "contract"
	limiter, err := weir.New(store, weir.Limits{limit}, weir.Options{})
	if err != nil {
		panic(err)
	}
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{
		Limiter: limiter,
		Key:     func(*http.Request) string { return "geocoder" }, // whatever its address
		MaxWait: time.Second,
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	for range 3 {
		res, err := client.Get(thirdParty.URL)
		if limited, ok := errors.AsType[*httplimit.Limited](err); ok {
			fmt.Println(limited)
			continue
		} else if err != nil {
			panic(err)
		}
		res.Body.Close()
		fmt.Println(res.StatusCode)
	}
	// Output:
	// 200
	// 200
	// httplimit: limit "contract" of requests to geocoder is exhausted: retry after 12h0m0s
}
