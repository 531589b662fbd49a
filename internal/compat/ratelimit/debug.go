package ratelimit

import (
	"expvar"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
)

// debugHandler serves the debug port. What is not an endpoint lists those that
// are.
func debugHandler(rules func(io.Writer) error) http.Handler {
	endpoints := []struct {
		path, help string
		serve      http.HandlerFunc
	}{
		{"/debug/pprof/", "root of various pprof endpoints. hit for help.", pprof.Index},
		{"/debug/pprof/profile", "CPU profiling endpoint", pprof.Profile},
		{"/debug/pprof/trace", "trace endpoint", pprof.Trace},
		{"/rlconfig", "print out the currently loaded configuration for debugging", func(w http.ResponseWriter, _ *http.Request) {
			_ = rules(w) // whoever hung up
		}},
		{"/stats", "print out stats", func(w http.ResponseWriter, _ *http.Request) {
			expvar.Do(func(v expvar.KeyValue) { fmt.Fprintf(w, "%s: %s\n", v.Key, v.Value) })
		}},
	}
	mux := http.NewServeMux()
	for _, e := range endpoints {
		mux.HandleFunc(e.path, e.serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		for _, e := range endpoints {
			fmt.Fprintf(w, "%s: %s\n", e.path, e.help)
		}
	})
	return mux
}
