package identity

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
)

// Options configures a [Resolver].
type Options struct {
	// Proxies says through whom requests come. Zero means straight from the
	// client.
	Proxies ProxyOptions `yaml:"proxies"`
	// IPv4Prefix is how many bits of an IPv4 address name a client, 24 to 32.
	// Zero means 32.
	IPv4Prefix int `yaml:"ipv4_prefix"`
	// IPv6Prefix is how many bits of an IPv6 address name a client, 48 to 128.
	// Zero means 64.
	IPv6Prefix int `yaml:"ipv6_prefix"`
	// NAT64 lists further prefixes, each a /96, whose last 32 bits are the IPv4
	// address of the client, put there by a translator of your own. Zero means
	// the well-known 64:ff9b::/96 alone.
	NAT64 []netip.Prefix `yaml:"nat64"`
	// Paths says what the upstreams make of a path. Zero means what most do.
	Paths PathOptions `yaml:"paths"`
	// MethodOverride names a header by which the upstream lets a POST be another
	// method. Set it if and only if the upstream does so. Zero means that the
	// method is the one of the request line.
	MethodOverride string `yaml:"method_override"`
	// APIKey says where API keys are sent. Zero means that there are none.
	APIKey APIKeyOptions `yaml:"api_key"`
	// Keys knows the API keys that there are, whose they are and their tiers, such as
	// credentials.KeyFile. Zero means that any key is one.
	Keys KeyTable `yaml:"-"`
	// Token says which tokens are believed. Zero means none.
	Token TokenOptions `yaml:"-"`
	// User lists where a verified user comes from, the first that has one wins:
	// "jwt:CLAIM", the claim of a verified token; "api_key", the user that Keys
	// names for it; "header:NAME", believed from trusted peers only. Zero means
	// that no request has a user.
	User []string `yaml:"user"`
	// Tier lists where the tier of a client comes from, the first that has one
	// wins: "jwt:CLAIM"; "keys", what Keys says of the API key, else of the user;
	// "header:NAME", believed from trusted peers only. Zero means that no request
	// has a tier.
	Tier []string `yaml:"tier"`
	// Log is told of credentials that are not believed, once a second, and of fields
	// that only trusted proxies may set, once for each network of peers that are not.
	// Zero means nobody is.
	Log *slog.Logger `yaml:"-"`
}

// PathOptions says what the upstreams make of a path, see [Canonical].
type PathOptions struct {
	// IgnoreCase folds letters to lower case, for upstreams to which /Login is /login;
	// with others than ASCII's a path is counted for both readings. Zero means that case
	// tells paths apart, as RFC 3986 §6.2.2.1 has it.
	IgnoreCase bool `yaml:"ignore_case"`
	// Allow lists what paths may hold though servers read it in more than one way:
	// "backslash", "parameters", "encoded_slash", "empty_segments"; see
	// [Route.Allow], which adds to it. Zero means none of them.
	Allow []string `yaml:"allow"`
}

// ProxyOptions says through whom requests come, and in which header they name
// the client.
type ProxyOptions struct {
	// Trusted lists the proxies: a header is believed only from a peer in it.
	// Zero means that nobody is believed.
	Trusted []netip.Prefix `yaml:"trusted"`
	// Unix trusts peers without an address, those of a Unix socket. Zero means
	// that they are not.
	Unix bool `yaml:"unix"`
	// Header names the one header that the proxies put the client's address in.
	// No other is looked at, as what a proxy does not set, its client can. Zero
	// means none: the peer is the client.
	Header string `yaml:"header"`
	// Form of the header: "list" (as X-Forwarded-For), "forwarded" (RFC 7239) or
	// "single" (one address, as X-Real-IP). Zero means that of the header's name,
	// "single" if it is neither of the two named here.
	Form string `yaml:"form"`
	// Hops is how many proxies there are, the peer included: the client is the
	// address that many from the end of the header. It is for proxies whose
	// addresses are not known; where requests can go around one, their senders
	// choose an address. Zero means to walk over trusted addresses instead.
	Hops int `yaml:"hops"`
}

// form of a header that names the client.
type form uint8

const (
	formNone form = iota
	formList
	formForwarded
	formSingle
)

// forms are the words for the forms, formsOf those of headers that have one of their own.
var (
	forms   = map[string]form{"list": formList, "forwarded": formForwarded, "single": formSingle}
	formsOf = map[string]form{"X-Forwarded-For": formList, "Forwarded": formForwarded}
)

func (o *ProxyOptions) parseForm() (form, error) {
	if o.Header == "" {
		if o.Form != "" || o.Hops != 0 {
			return formNone, errors.New("proxies: form and hops say how to read a header, set header too")
		}
		return formNone, nil
	}
	if !isToken(o.Header) {
		return formNone, fmt.Errorf("proxies: header %q is not the name of a header", o.Header)
	}
	if len(o.Trusted) == 0 && !o.Unix {
		return formNone, fmt.Errorf("proxies: header %s is never trusted: list the proxies in trusted", o.Header)
	}
	f, ok := forms[o.Form]
	switch {
	case o.Form == "":
		f = cmp.Or(formsOf[http.CanonicalHeaderKey(o.Header)], formSingle)
	case !ok:
		return formNone, fmt.Errorf("proxies: unknown form %q, choose one of list, forwarded, single", o.Form)
	}
	switch {
	case o.Hops < 0 || o.Hops > maxHops:
		return formNone, fmt.Errorf("proxies: hops must be between 0 and %d, not %d", maxHops, o.Hops)
	case o.Hops > 1 && f == formSingle:
		return formNone, fmt.Errorf("proxies: header %s holds one address, it has no hops to count", o.Header)
	}
	return f, nil
}
