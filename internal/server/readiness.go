package server

import (
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

// addHealth adds the probes of a node.
func (r *readiness) addHealth(mux *http.ServeMux) {
	addProbes(mux, r.notReady, "/healthz/ready", "/healthcheck")
}

// withHealth adds the probes to a handler whose paths they do not meet, as
// envoyproxy/ratelimit has /healthcheck beside its API.
func (r *readiness) withHealth(next http.Handler) http.Handler {
	probes := http.NewServeMux()
	r.addHealth(probes)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// A second mux for every request would cost more than the look.
		if strings.HasPrefix(req.URL.Path, "/health") {
			probes.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
