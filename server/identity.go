package server

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/identity"
)

// Identity configures whom a request is taken to be from.
type Identity struct {
	Proxies        Proxies  `yaml:"proxies" embed:""`
	IPv4Prefix     int64    `yaml:"ipv4_prefix" name:"ipv4-prefix" default:"32" placeholder:"BITS" help:"How many bits of an IPv4 address name a client, 24 to 32."`
	IPv6Prefix     int64    `yaml:"ipv6_prefix" name:"ipv6-prefix" default:"64" placeholder:"BITS" help:"How many bits of an IPv6 address name a client, 48 to 128: a customer has a whole /64 at hand."`
	NAT64          []string `yaml:"nat64" name:"nat64" sep:"," placeholder:"CIDR" help:"Further prefixes of 96 bits whose addresses hold an IPv4 address in their last 32, put there by a translator of your own. 64:ff9b::/96 is known."`
	Paths          Paths    `yaml:"paths" embed:""`
	MethodOverride string   `yaml:"method_override" name:"method-override" placeholder:"HEADER" help:"Header by which the upstream lets a POST be another method, such as X-HTTP-Method-Override. Give it if and only if the upstream does so."`
	User           []string `yaml:"user" name:"user-from" sep:"," placeholder:"SOURCE" help:"Where a verified user comes from, the first that has one wins: header:NAME, believed from trusted proxies only and dropped from others."`
	Tier           []string `yaml:"tier" name:"tier-from" sep:"," placeholder:"SOURCE" help:"Where the tier of a client comes from, the first that has one wins: header:NAME, believed from trusted proxies only and dropped from others."`
}

// Proxies configures through whom requests come.
type Proxies struct {
	Trusted []string `yaml:"trusted" name:"trusted-proxies" sep:"," placeholder:"CIDR" help:"Proxies that are believed when they name the client: addresses or prefixes. Nobody else is."`
	Header  string   `yaml:"header" name:"client-ip-header" placeholder:"HEADER" help:"The one header in which trusted proxies name the client; no other is looked at. Empty means X-Forwarded-For if there are trusted proxies."`
	Form    string   `yaml:"form" name:"client-ip-form" placeholder:"FORM" help:"Form of that header: list (as X-Forwarded-For), forwarded (RFC 7239) or single (one address, as X-Real-IP). Empty means that of the header's name, single if it is neither of the first two."`
	Hops    int64    `yaml:"hops" name:"client-ip-hops" default:"0" placeholder:"N" help:"How many proxies there are, the peer included: the client is the address that many from the end of the header. For proxies whose addresses are not known. 0 means to walk over trusted addresses."`
}

// Paths configures what the upstreams make of a path.
type Paths struct {
	IgnoreCase       bool `yaml:"ignore_case" name:"paths-ignore-case" help:"Upper and lower case are one in the paths of limits and routes, for upstreams to which /Login is /login."`
	KeepEncodedSlash bool `yaml:"keep_encoded_slash" name:"paths-keep-encoded-slash" help:"%2F and %5C are no slashes in the paths of limits and routes, for upstreams that tell a/b and a%2Fb apart."`
}

// defaultClientHeader is where most proxies name the client.
const defaultClientHeader = "X-Forwarded-For"

// clientHeader returns the header in which trusted proxies name the client,
// empty for none.
func (c *Identity) clientHeader() string {
	if c.Proxies.Header == "" && len(c.Proxies.Trusted) > 0 {
		return defaultClientHeader
	}
	return c.Proxies.Header
}

// proxyHeaders returns the headers that name a user or a tier.
func (c *Identity) proxyHeaders() []string {
	var out []string
	for _, s := range append(append([]string{}, c.User...), c.Tier...) {
		if name, ok := strings.CutPrefix(s, "header:"); ok {
			out = append(out, name)
		}
	}
	return out
}

// options returns what a resolver is made with.
func (c *Identity) options() (identity.Options, error) {
	opt := identity.Options{
		// Out of every range of identity.New what does not fit an int.
		IPv4Prefix: int(min(max(c.IPv4Prefix, -1), 1000)),
		IPv6Prefix: int(min(max(c.IPv6Prefix, -1), 1000)),
		Paths:      identity.PathOptions{IgnoreCase: c.Paths.IgnoreCase, KeepEncodedSlash: c.Paths.KeepEncodedSlash},

		MethodOverride: c.MethodOverride, User: c.User, Tier: c.Tier,
	}
	opt.Proxies.Header, opt.Proxies.Form = c.clientHeader(), c.Proxies.Form
	opt.Proxies.Hops = int(min(max(c.Proxies.Hops, -1), 1000))
	var err error
	if opt.Proxies.Trusted, err = prefixes("--trusted-proxies", c.Proxies.Trusted); err != nil {
		return opt, err
	}
	opt.NAT64, err = prefixes("--nat64", c.NAT64)
	return opt, err
}

// resolver returns what finds out who sent a request.
func (c *Identity) resolver() (*identity.Resolver, error) {
	opt, err := c.options()
	if err != nil {
		return nil, err
	}
	r, err := identity.New(opt)
	if err != nil {
		return nil, fmt.Errorf("the section identity: %w", err)
	}
	return r, nil
}

// prefixes reads addresses and prefixes that a flag gives.
func prefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		s = strings.TrimSpace(s)
		if a, err := netip.ParseAddr(s); err == nil {
			a = a.Unmap().WithZone("")
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%s %q is neither an address nor a prefix such as 10.0.0.0/8", flag, s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
