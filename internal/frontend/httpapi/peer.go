package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// peerAddress returns the address of the TCP peer, v4-mapped ones as IPv4 and without
// a zone; the zero Addr if the listener does not tell.
func peerAddress(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr) // zero with an error
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

// LoopbackHost reports whether a Host header names this machine's loopback.
func LoopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}
