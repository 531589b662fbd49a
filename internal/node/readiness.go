package node

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// readiness is what probes ask: whether the node takes requests. Safe for concurrent use.
type readiness struct{ atomic.Int32 }

// States of a server.
const (
	starting int32 = iota
	serving
	draining
)

// notReady says why the node takes no requests, empty when it does.
func (r *readiness) notReady() string {
	switch r.Load() {
	case starting:
		return "starting"
	case draining:
		return "draining"
	}
	return ""
}

// addHealth adds the probes of a node to mux; see addProbes.
func (r *readiness) addHealth(mux *http.ServeMux, note func() string) {
	addProbes(mux, r.notReady, note, "/healthz/ready", "/healthcheck")
}

// withHealth adds the probes to a handler whose paths they do not meet, as
// envoyproxy/ratelimit has /healthcheck beside its API.
func (r *readiness) withHealth(next http.Handler) http.Handler {
	probes := http.NewServeMux()
	r.addHealth(probes, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// A second mux for every request would cost more than the look.
		if strings.HasPrefix(req.URL.Path, "/health") {
			probes.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// readyPath is where the note is: other paths answer as elsewhere.
const readyPath = "/healthz/ready"

// addProbes adds the probes to mux, with readiness at the paths. They need no token: they
// tell nothing but whether the node is well, to a kubelet that has none. notReady says why it
// takes no requests; what note returns, if it is not nil, is a second line for a person who
// asks a node that is ready.
func addProbes(mux *http.ServeMux, notReady, note func() string, paths ...string) {
	mux.HandleFunc("GET /healthz/live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	for _, path := range paths {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if why := notReady(); why != "" {
				w.Header().Set("Retry-After", "1")
				http.Error(w, why, http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "OK")
			if note != nil && path == readyPath {
				if text := note(); text != "" {
					fmt.Fprintln(w, text)
				}
			}
		})
	}
}
