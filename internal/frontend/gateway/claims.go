package gateway

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weirlimit/weir/identity"
)

// Names of header fields are in the lists below as variables have them, with
// dashes: see appendFolded.

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
	"x-forward-for", "x-forwardedfor", "xforwardedfor",
	"x-original-url", "x-rewrite-url", "x-override-url", "x-http-destinationurl", "x-envoy-original-path", "x-original-path", "request-uri",
	"x-invoke-path", "x-matched-path", "x-middleware-subrequest", // of Next.js, by which it skips what it had run
	"x-http-method-override", "x-http-method", "x-method-override",
	"proxy",
)

// verified are the fields by which a proxy tells its application who has logged in,
// beside those that hearsay knows by their words. They are forwarded from trusted
// proxies.
var verified = setOf(
	"remote-user", "x-remote-user", "remote-name", "remote-email", "remote-groups", "x-remote-group", "x-remote-groups", "auth-user", "x-auth-user",
	"x-authenticated-user", "x-authenticated-userid", "x-authenticated-groups", "x-proxy-user", "x-user-dn", "x-token-subject",
	"cf-access-authenticated-user-email", "x-client-cert", "x-client-verify", "x-client-dn", "x-client-cert-dn", "x-original-uri", "x-original-method", "x-original-host", "x-host",
	"front-end-https", "x-url-scheme", "x-scheme", "x-arr-ssl", "x-script-name", "x-azure-fdid", "x-path", "x-method", "x-request-uri", "x-backend-host",
)

// meaning is what words of a name say, as bits.
type meaning uint16

const (
	anAddress  meaning = 1 << iota // of a client, alone
	aClient                        // whose address it may be
	itsAddress                     // of a client, beside aClient
	another                        // beside aTarget: than the one that was asked for
	aTarget
	aVoucher // beside aUser: who says so
	aUser
	aVerdict // on who asks, alone
	aProduct // as the first word: of a proxy or login, all of whose fields are its own
)

// words are what names of fields are made of by which upstreams believe what a client
// claims: a name that is new is most often made of them.
var words = func() map[string]meaning {
	all := map[string]meaning{}
	for m, list := range map[meaning]string{
		anAddress:  "ip ips ipv4 ipv6 addr clientip realip remoteip userip socketip peerip sourceip clientaddr remoteaddr forwarded",
		aClient:    "client real remote source src peer origin originating connecting external trusted true proxy",
		itsAddress: "address port hostname",
		another:    "original orig rewrite rewritten override overridden",
		aTarget:    "url uri path host method scheme",
		aVoucher:   "remote auth real gateway proxy verified ssl access client forwardauth sso",
		aUser:      "user username userid userdn email group groups role roles subject cert certificate verify",
		aVerdict:   "consumer credential authenticated userinfo eppn principal dn",
		aProduct:   "shib shibboleth sm iv oidc saml ssl envoy webauth authentik pomerium tailscale",
	} {
		for w := range strings.FieldsSeq(list) {
			all[w] |= m
		}
	}
	return all
}()

// verifiedPrefixes begin the names of further fields of products that share their first word
// with ordinary fields.
var verifiedPrefixes = []string{
	"x-auth-request-", "x-webauth-", "x-authentik-", "x-pomerium-", "x-goog-authenticated-user-", "x-ms-client-principal", "x-amzn-oidc-", "tailscale-user-",
	"x-ssl-client-", "ssl-client-", "x-remote-extra-", "oidc-claim-", "x-shib-", "x-consumer-", "x-envoy-",
}

// hearsay reports, by the words of a folded name, whether a field says from which
// address, or for which other target, a request is, and whether it says who has logged in.
func hearsay(name []byte) (claim, login bool) {
	var has, first meaning
	n := 0
	for len(name) > 0 {
		end := bytes.IndexByte(name, '-')
		if end < 0 {
			end = len(name)
		}
		m := words[string(name[:end])]
		if string(name[:end]) != "x" {
			if n++; n == 1 {
				first = m
			}
		}
		has |= m
		name = name[min(end+1, len(name)):]
	}
	both := func(m meaning) bool { return has&m == m }
	return has&anAddress != 0 || both(aClient|itsAddress) || both(another|aTarget),
		first&aProduct != 0 && n > 1 || has&aVerdict != 0 || both(aVoucher|aUser)
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// dropClaims removes from h what only Weir or a trusted proxy may say, in whatever
// spelling; from trusted proxies it leaves what is theirs, spelt as it should be. From
// others it leaves what Options.ClientFields lists.
func (g *Gateway) dropClaims(h http.Header, trusted bool) {
	maps.DeleteFunc(h, func(key string, _ []string) bool { return g.isClaim(key, trusted) })
}

// isClaim reports whether dropClaims removes a field.
func (g *Gateway) isClaim(key string, trusted bool) bool {
	if key == g.identity.MethodOverride() || trusted && (key == g.header || slices.Contains(g.believed, key)) {
		return false
	}
	var buf [64]byte // longer than any name of the lists
	name, spelt := appendFolded(buf[:0], key)
	claim, login := hearsay(name)
	login = verified[string(name)] || login || slices.ContainsFunc(verifiedPrefixes, func(p string) bool { return hasPrefix(name, p) })
	claim = claims[string(name)] || claim && !verified[string(name)]
	drop := claim || login && !(trusted && spelt)
	if !trusted && len(g.opt.ClientFields) > 0 {
		listed, rest := g.listsField(name)
		drop = !listed && (drop || !rest)
	}
	return drop || hasPrefix(name, "x-forwarded-") || string(name) == "forwarded" || g.header != "" && identity.SameField(key, g.header) ||
		slices.ContainsFunc(g.believed, func(b string) bool { return identity.SameField(key, b) })
}

// listsField reports whether Options.ClientFields has the name, and whether it has a star
// alone, for all that is no claim.
func (g *Gateway) listsField(name []byte) (listed, rest bool) {
	var buf [64]byte
	for _, f := range g.opt.ClientFields {
		prefix, star := strings.CutSuffix(f, "*")
		one, _ := appendFolded(buf[:0], prefix)
		switch {
		case prefix == "":
			rest = true
		case star && hasPrefix(name, string(one)), !star && string(one) == string(name):
			listed = true
		}
	}
	return listed, rest
}

func hasPrefix(name []byte, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// appendFolded appends the name of a field to b, up to its capacity, as servers have it
// that hand fields on as variables: in one case, and one character for all that
// are neither letters nor digits. spelt: that was a dash everywhere.
func appendFolded(b []byte, key string) (name []byte, spelt bool) {
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
