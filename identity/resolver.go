package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"

	"github.com/weirlimit/weir/internal/address"
)

// Resolver finds out who sent a request. It does not change, but for the keys
// of tokens that it fetches and the file of API keys. Safe for concurrent use.
type Resolver struct {
	proxies  proxies
	width    width
	nat64    []netip.Prefix
	paths    PathOptions
	allowed  liberties     // of paths, by paths
	override string        // canonical name
	keys     *apiKeys      // nil: requests have no API key
	tokens   *tokens       // nil: no token is believed
	verifier TokenVerifier // of tokens; nil: none
	user     claimants
	tier     claimants
	fields   singleFields
	reports  *reports
	callers  sync.Pool
}

// New returns a resolver. Its error says which option cannot be met, and how to.
func New(opt Options) (*Resolver, error) {
	r := &Resolver{paths: opt.Paths, verifier: opt.Token.Verifier}
	r.callers.New = func() any { return &Caller{r: r} }
	if err := r.compile(&opt); err != nil {
		return nil, errors.Join(fmt.Errorf("identity: %w", err), r.Close())
	}
	r.fields = newSingleFields(r)
	r.reports = newReports(r, opt.Log)
	return r, nil
}

// compile compiles the options. What it has opened when it fails is closed by Close.
func (r *Resolver) compile(opt *Options) (err error) {
	if r.width, err = newWidth(opt.IPv4Prefix, opt.IPv6Prefix); err != nil {
		return err
	}
	if r.allowed, err = libertiesOf(opt.Paths.Allow); err != nil {
		return fmt.Errorf("paths: %w", err)
	}
	if r.nat64, err = nat64Prefixes(opt.NAT64); err != nil {
		return err
	}
	f, err := opt.Proxies.parseForm()
	if err != nil {
		return err
	}
	r.proxies = proxies{
		trusted: address.NewSet(opt.Proxies.Trusted), unix: opt.Proxies.Unix,
		header: http.CanonicalHeaderKey(opt.Proxies.Header), form: f, hops: opt.Proxies.Hops,
	}
	if opt.MethodOverride != "" && !isToken(opt.MethodOverride) {
		return fmt.Errorf("method_override %q is not the name of a header", opt.MethodOverride)
	}
	r.override = http.CanonicalHeaderKey(opt.MethodOverride)
	if r.keys, err = newAPIKeys(opt.APIKey, opt.Keys); err != nil {
		return err
	}
	if r.tokens, err = newTokens(opt.Token); err != nil {
		return err
	}
	if r.user, err = r.claimants("user", opt.User, opt); err != nil {
		return err
	}
	r.tier, err = r.claimants("tier", opt.Tier, opt)
	return err
}

// Close closes the verifier of tokens.
func (r *Resolver) Close() error {
	if r.verifier == nil {
		return nil
	}
	return r.verifier.Close()
}

// Trusts reports whether a peer is one of the trusted proxies: only then may a
// front end take what a header says of the original request.
func (r *Resolver) Trusts(peer netip.Addr) bool { return r.proxies.believes(address.Bare(peer)) }

// MethodOverride returns the canonical name of the header by which a POST is another
// method, "" if there is none.
func (r *Resolver) MethodOverride() string { return r.override }

// Acquire returns the working memory for one request. Give it back with
// Caller.Release.
func (r *Resolver) Acquire() *Caller { return r.callers.Get().(*Caller) }
