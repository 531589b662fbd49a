package analytics

import "net/http"

// callerOf says who sent a request, as far as it tells: the user of basic
// authentication, or the address.
func callerOf(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok && user != "" {
		return text(user)
	}
	return text(r.RemoteAddr)
}
