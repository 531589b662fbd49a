package identity

import (
	"net/http"
	"strings"
)

// forwarding are the headers by which proxies tell who the client is. An
// upstream may believe any of them.
var forwarding = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Method", "X-Forwarded-Uri",
	"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Original-Url", "X-Rewrite-Url",
}

// guarded returns the headers that name a client, a user or a tier.
func (r *Resolver) guarded() map[string]bool {
	all := map[string]bool{}
	for _, name := range forwarding {
		all[name] = true
	}
	if r.proxies.header != "" {
		all[r.proxies.header] = true
	}
	for _, from := range [][]claimant{r.user, r.tier} {
		for _, f := range from {
			if f.kind == fromHeader {
				all[f.name] = true
			}
		}
	}
	return all
}

// Clean removes from h, the headers to send to an upstream, what a client may
// have put there to pose as another: names that are one of a client's, a user's
// or a tier's but for an underscore, as X_Forwarded_For, which many servers take
// for a dash; and if the peer is not trusted, those headers themselves. The
// header of the client's address for the upstream is set after it.
func (c *Caller) Clean(h http.Header) {
	for name := range h {
		plain := name
		if strings.IndexByte(name, '_') >= 0 {
			plain = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		if c.r.guard[plain] && (plain != name || !c.believed) {
			delete(h, name)
		}
	}
}
