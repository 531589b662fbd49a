package ratelimit

import (
	"net/http"
	"sync"
)

// The components that health is made of.
const (
	storeHealth  = "redis"
	configHealth = "config"
	endHealth    = "sigterm"
)

// serviceName is what the gRPC health service calls the service.
const serviceName = "ratelimit"

// health is good when every component is.
type health struct {
	mu    sync.Mutex
	parts map[string]bool
	// onChange is told of every change, under mu.
	onChange func(serving bool)
	ok       bool
}

// newHealth returns health with the store not reached yet and, if rules count,
// none loaded.
func newHealth(needRules bool, onChange func(serving bool)) *health {
	h := &health{parts: map[string]bool{storeHealth: false, endHealth: true}, onChange: onChange}
	if needRules {
		h.parts[configHealth] = false
	}
	onChange(false)
	return h
}

// setComponent says how a component is. One that does not count is passed over.
func (h *health) setComponent(part string, good bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, counts := h.parts[part]; !counts {
		return
	}
	h.parts[part] = good
	all := true
	for _, good := range h.parts {
		all = all && good
	}
	if all != h.ok {
		h.ok = all
		h.onChange(all)
	}
}

// ServeHTTP answers /healthcheck.
func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	ok := h.ok
	h.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	// Whoever hangs up does not want to know.
	_, _ = w.Write([]byte("OK"))
}
