package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
)

// Paths is a handler that knows which paths are its own: an [API], or one that
// is wrapped in a timer.
type Paths interface {
	http.Handler
	// Serves reports whether path is one of the handler's.
	Serves(path string) bool
	// Authorized reports whether a request carries the admin token.
	Authorized(r *http.Request) bool
}

// Guard serves the API's paths to trusted clients and gives every other request
// to next: on a port that strangers reach, a stranger must not spend another's
// quota.
//
// Trusted are clients in the given prefixes and requests with the admin token,
// nobody else. A loopback address proves nothing: a proxy on this machine has it,
// and so has a web page in a browser on this machine.
//
// client says who the client is where trusted proxies stand between: one who
// comes through a proxy that is listed is not the proxy. Nil means the peer.
func Guard(trusted []netip.Prefix, client func(*http.Request) netip.Addr, api Paths, next http.Handler) http.Handler {
	if client == nil {
		client = peer
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.Serves(r.URL.Path) && (trusts(trusted, client(r)) || api.Authorized(r)) {
			api.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func trusts(trusted []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// peer returns the address of the TCP peer, v4-mapped ones as IPv4 and without
// a zone; the zero Addr if the listener does not tell.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// Forwarded reports whether r went through a proxy: one that says so, or one that
// speaks HTTP/1.0, as nginx does unless it is told otherwise and no client of today
// does.
func Forwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for _, key := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if _, ok := r.Header[key]; ok {
			return true
		}
	}
	return false
}
