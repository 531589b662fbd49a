package node

import (
	"net/http"

	"github.com/weirlimit/weir/answer"
)

// withProblems serves mux, and answers what none of its patterns takes with a problem
// document.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		dropped := &unserved{ResponseWriter: w}
		h.ServeHTTP(dropped, r)
		answer.Problem{Status: dropped.status, Detail: "nothing is served at " + r.Method + " " + r.URL.Path}.Write(w)
	})
}

// unserved keeps the status of a response alone, and its header fields, such as Allow.
type unserved struct {
	http.ResponseWriter
	status int
}

func (u *unserved) WriteHeader(status int) { u.status = status }

func (u *unserved) Write(p []byte) (int, error) { return len(p), nil }

// sameOrigin refuses what a page of another site makes a browser send.
func sameOrigin(h http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Problem{Status: http.StatusForbidden, Detail: "a page of another site may not ask this"}.Write(w)
	}))
	return guard.Handler(h)
}
