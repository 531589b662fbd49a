package gateway

import (
	"net/http"
	"slices"

	"github.com/weirlimit/weir/identity"
)

// Names of header fields are in the lists below as variables have them, with
// dashes: see fold.

// claims are the fields by which a request says of itself what Weir finds out, and
// what upstreams that believe them would take from anybody: whose address it is
// from, beside Forwarded and X-Forwarded-*; by which other path or method it is
// served; and HTTP_PROXY, which CGI programs take for their own setting ("httpoxy").
// They are forwarded from nobody, but for those that the configuration names.
var claims = setOf(
	"forwarded", "forwarded-for", "forwarded-for-ip", "x-forwarded",
	"x-real-ip", "x-real-port", "x-client-ip", "client-ip", "http-client-ip", "x-cluster-client-ip", "proxy-client-ip", "wl-proxy-client-ip", "x-proxyuser-ip",
	"x-remote-ip", "x-remote-addr", "remote-addr", "remote-host", "x-originating-ip", "x-original-forwarded-for", "http-x-forwarded-for", "x-coming-from",
	"true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4", "fastly-client-ip", "fly-client-ip", "do-connecting-ip", "incap-client-ip",
	"x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-appengine-remote-addr", "x-nf-client-connection-ip", "x-vercel-forwarded-for",
	"x-sucuri-clientip", "ali-cdn-real-ip", "cdn-src-ip", "cdn-client-ip", "x-envoy-external-address", "x-envoy-internal", "x-arr-clientip",
	"x-original-url", "x-rewrite-url", "x-override-url", "x-http-destinationurl", "x-envoy-original-path", "x-original-path",
	"x-http-method-override", "x-http-method", "x-method-override",
	"proxy",
)

// verified are the fields by which a proxy tells its application who has logged in.
// They are forwarded from trusted proxies.
var verified = setOf(
	"remote-user", "x-remote-user", "remote-name", "remote-email", "remote-groups", "x-remote-group", "x-remote-groups", "auth-user", "x-auth-user",
	"x-authenticated-user", "x-authenticated-userid", "x-authenticated-groups", "x-proxy-user", "x-user-dn", "x-token-subject",
	"cf-access-authenticated-user-email", "x-client-cert", "x-client-verify", "x-client-dn", "x-client-cert-dn", "x-original-uri", "x-original-method", "x-original-host", "x-host",
	"front-end-https", "x-url-scheme", "x-scheme", "x-arr-ssl", "x-script-name", "x-azure-fdid",
)

// verifiedPrefixes begin the names of further ones.
var verifiedPrefixes = []string{
	"x-auth-request-", "x-webauth-", "x-authentik-", "x-pomerium-", "x-goog-authenticated-user-", "x-ms-client-principal", "x-amzn-oidc-", "tailscale-user-",
	"x-ssl-client-", "ssl-client-", "x-remote-extra-",
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// dropClaims removes from h what only Weir or a trusted proxy may say, in whatever
// spelling; from trusted proxies it leaves what is theirs, spelt as it should be.
func (g *Gateway) dropClaims(h http.Header, trusted bool) {
	var buf [64]byte // longer than any name of the lists
	override := g.identity.MethodOverride()
	for key := range h {
		if key == override || trusted && (key == g.header || slices.Contains(g.believed, key)) {
			continue
		}
		name, spelt := fold(buf[:0], key)
		switch {
		case claims[string(name)], hasPrefix(name, "x-forwarded-"):
		case (verified[string(name)] || slices.ContainsFunc(verifiedPrefixes, func(p string) bool { return hasPrefix(name, p) })) && !(trusted && spelt):
		case g.header != "" && identity.SameField(key, g.header):
		case slices.ContainsFunc(g.believed, func(b string) bool { return identity.SameField(key, b) }):
		default:
			continue
		}
		delete(h, key)
	}
}

func hasPrefix(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// fold appends the name of a field to b, up to its capacity, as servers have it
// that hand fields on as variables: in one case, and one character for all that
// are neither letters nor digits. spelt: that was a dash everywhere.
func fold(b []byte, key string) (name []byte, spelt bool) {
	spelt = true
	for i := 0; i < len(key) && len(b) < cap(b); i++ {
		c := key[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
		default:
			c, spelt = '-', false
		}
		b = append(b, c)
	}
	return b, spelt
}
