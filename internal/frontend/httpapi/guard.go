package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
)

// Guard serves the API's paths to trusted clients and gives every other request
// to next: on a port that strangers reach, a stranger must not spend another's
// quota.
//
// Trusted are clients in the given prefixes and requests with the admin token,
// nobody else. A loopback address proves nothing: a proxy on this machine has it,
// and so has a web page in a browser on this machine.
//
// client says who the client is where trusted proxies stand between: one who
// comes through a proxy that is listed is not the proxy. Nil means the peer. timed is the
// API as it is measured.
func Guard(trusted []netip.Prefix, client func(*http.Request) netip.Addr, api *API, timed, next http.Handler) http.Handler {
	if client == nil {
		client = peerAddress
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isTrusted := func(p netip.Prefix) bool { return p.Contains(client(r)) }
		if api.ServesPath(r.URL.Path) && (slices.ContainsFunc(trusted, isTrusted) || api.operators.hasToken(r)) {
			timed.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
