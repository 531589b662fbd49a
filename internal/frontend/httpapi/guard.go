package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
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
		client = peer
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isTrusted := func(p netip.Prefix) bool { return p.Contains(client(r)) }
		if api.Serves(r.URL.Path) && (slices.ContainsFunc(trusted, isTrusted) || api.operators.hasToken(r)) {
			timed.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
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

// forwardedFields are what proxies add of their own accord, beside the fields whose
// names begin with X-Forwarded.
var forwardedFields = map[string]bool{
	"Forwarded": true, "Forwarded-For": true, "Via": true, "X-Via": true, "Client-Ip": true, "X-Client-Ip": true, "X-Real-Ip": true,
	"X-Cluster-Client-Ip": true, "X-Original-Forwarded-For": true, "X-Originating-Ip": true, "X-Remote-Addr": true, "X-Remote-Ip": true,
	"X-Proxyuser-Ip": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Cf-Ray": true, "Cdn-Loop": true, "Fastly-Client-Ip": true,
	"Fly-Client-Ip": true, "X-Azure-Clientip": true, "X-Amzn-Trace-Id": true, "X-Appengine-User-Ip": true, "X-Arr-Log-Id": true,
	"X-Envoy-External-Address": true, "X-Envoy-Internal": true, "X-Envoy-Original-Path": true, "X-Scheme": true, "X-Original-Uri": true, "X-Original-Url": true,
}

// Forwarded reports whether r went through a proxy: one that says so, or one that
// speaks HTTP/1.0, as nginx does unless it is told otherwise and no client of today
// does.
func Forwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for key := range r.Header {
		if forwardedFields[key] || strings.HasPrefix(key, "X-Forwarded") {
			return true
		}
	}
	return false
}
