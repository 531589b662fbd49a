package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Resolver finds out who sent a request. Safe for concurrent use.
type Resolver struct {
	proxies  proxies
	width    width
	nat64    []netip.Prefix
	paths    PathOptions
	override string // canonical name
	user     []claimant
	tier     []claimant
	callers  sync.Pool
}

// claimant is where a user or a tier comes from.
type claimant struct {
	kind kind
	name string
}

// New returns a resolver.
func New(opt Options) (*Resolver, error) {
	r := &Resolver{paths: opt.Paths}
	r.callers.New = func() any { return &Caller{r: r} }
	var err error
	if r.width, err = newWidth(opt.IPv4Prefix, opt.IPv6Prefix); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if r.nat64, err = nat64Prefixes(opt.NAT64); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	f, err := opt.Proxies.form()
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	r.proxies = proxies{
		trusted: newTrust(opt.Proxies.Trusted), unix: opt.Proxies.Unix,
		header: http.CanonicalHeaderKey(opt.Proxies.Header), form: f, hops: opt.Proxies.Hops,
	}
	if opt.MethodOverride != "" && !isToken(opt.MethodOverride) {
		return nil, fmt.Errorf("identity: method_override %q is not the name of a header", opt.MethodOverride)
	}
	r.override = http.CanonicalHeaderKey(opt.MethodOverride)
	if r.user, err = r.claimants("user", opt.User, &opt); err != nil {
		return nil, err
	}
	if r.tier, err = r.claimants("tier", opt.Tier, &opt); err != nil {
		return nil, err
	}
	return r, nil
}

// claimants compiles where a user or a tier comes from.
func (r *Resolver) claimants(what string, from []string, opt *Options) ([]claimant, error) {
	var all []claimant
	for _, text := range from {
		word, arg, _ := strings.Cut(text, ":")
		switch {
		case word == "header" && isToken(arg):
			if len(opt.Proxies.Trusted) == 0 && !opt.Proxies.Unix {
				return nil, fmt.Errorf("identity: %s: %s is believed from nobody: list the proxies that set it in proxies.trusted", what, text)
			}
			all = append(all, claimant{fromHeader, http.CanonicalHeaderKey(arg)})
		default:
			return nil, fmt.Errorf("identity: %s: %q is not a source of a verified %s, choose header:NAME", what, text, what)
		}
	}
	return all, nil
}

// Acquire returns the working memory for one request. Give it back with
// Caller.Release.
func (r *Resolver) Acquire() *Caller { return r.callers.Get().(*Caller) }
