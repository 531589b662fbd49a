package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// Fields that a recipient must know before the content: for framing, routing,
// authentication, request modifiers, response control and the form of content. Whole
// families are named by how they begin, since HTTP gives new fields of a family its name.
//
// Source: RFC 9110 §6.5.1.
var (
	leading = setOf("connection", "te", "trailer", "upgrade", "host", "expect", "max-forwards", "pragma", "range", "authorization", "cookie", "cookie2", "authentication-info",
		"age", "expires", "date", "location", "retry-after", "vary", "warning", "allow", "alt-svc", "clear-site-data", "content-security-policy", "dpop", "early-data", "from", "last-modified",
		"depth", "destination", "link", "lock-token", "origin", "overwrite", "prefer", "origin-agent-cluster", "priority", "referer", "refresh", "server", "service-worker-allowed", "strict-transport-security", "user-agent", "via")
	leadingPrefixes = []string{"accept", "access-control-", "cache-", "cdn-cache-", "content-", "cross-origin-", "http2-settings", "if-", "keep-alive", "proxy-", "ratelimit", "sec-",
		"set-cookie", "surrogate-", "transfer-", "www-", "x-content-type-options", "x-frame-options", "x-ratelimit-"}
	// trailing begin so, and are made to trail.
	trailing = setOf("content-digest", "content-md5")
)

// mayTrail reports whether a field of this name may come behind the content.
func mayTrail(key string) bool {
	var buf [64]byte
	name, _ := appendFolded(buf[:0], key)
	return trailing[string(name)] || !leading[string(name)] && !slices.ContainsFunc(leadingPrefixes, func(p string) bool { return hasPrefix(name, p) })
}

// dropTrailers removes from the header of an answer whose head is sent the trailers that
// may not be some.
func dropTrailers(h http.Header) {
	for key := range h {
		if !mayTrail(strings.TrimPrefix(key, http.TrailerPrefix)) {
			delete(h, key)
		}
	}
}
