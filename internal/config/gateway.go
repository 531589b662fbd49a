package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/redact"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// Gateway configures how requests are forwarded, where their route says
// nothing else.
type Gateway struct {
	PreserveHost   bool          `yaml:"preserve_host" name:"preserve-host" kong:"-" help:"Send the client's Host to the upstream. Without it, the upstream's own is sent."`
	ConnectTimeout time.Duration `yaml:"connect_timeout" kong:"-" was:"upstream-connect-timeout" default:"5s" placeholder:"DURATION" help:"Longest time to connect to the upstream; then the response is 502."`
	HeaderTimeout  time.Duration `yaml:"header_timeout" kong:"-" was:"upstream-header-timeout" default:"1m" placeholder:"DURATION" help:"Longest wait for the first line of the upstream's response once the request is sent; then the response is 504."`
	Timeout        time.Duration `yaml:"timeout" name:"upstream-timeout" kong:"-" default:"0s" placeholder:"DURATION" help:"Longest time for the upstream's whole response; then 504. It counts from the first byte that is sent; a response that has begun is cut. 0 means no bound. WebSockets are not bounded."`
	MaxBody        Bytes         `yaml:"max_body" name:"max-body" kong:"-" default:"0" placeholder:"BYTES" help:"Largest body of a request that is forwarded; above it 413. 0 means no bound."`
	MaxDelay       time.Duration `yaml:"max_delay" kong:"-" was:"max-delay" default:"10s" placeholder:"DURATION" help:"Longest time that a request is delayed for a limit; one that would wait longer is refused."`
	MaxWaiting     int64         `yaml:"max_delayed" kong:"-" was:"max-waiting" default:"1024" placeholder:"N" help:"Most requests that are delayed at a time; further ones are refused."`
	ClientFields   []string      `yaml:"client_fields" kong:"-" sep:"," placeholder:"FIELD" help:"Header fields that peers outside identity.proxies.trusted may send to upstreams: names, with * at the end for all that begin so. A * alone stands for all but the claims that docs/reference/gateway.md describes. Empty means the * alone."`
	HalfClosed     time.Duration `yaml:"half_closed_timeout" kong:"-" was:"half-closed" default:"10s" placeholder:"DURATION" help:"How long one direction of a WebSocket may outlive the other."`
}

// Route configures requests of one kind. The first route that matches is taken.
type Route struct {
	Name           string                `yaml:"name" help:"Name of the route, the value of the source route. Empty means host and path."`
	Host           string                `yaml:"host" help:"Host of the requests: example.com, or *.example.com for all names below it. Empty means any."`
	Path           string                `yaml:"path" help:"Path of the requests, compared in canonical form: /login; {id} stands for any one segment, /* at the end for the path and all below it. Empty means any."`
	Allow          []string              `yaml:"allow,omitempty" help:"What the paths of the requests may hold though servers read it in more than one way, beside identity.paths.allow: backslash, parameters, encoded_slash, empty_segments. Empty means that such requests are refused with 400."`
	Methods        []string              `yaml:"methods" help:"Methods of the requests; GET is HEAD too. Empty means any."`
	Descriptors    []identity.Descriptor `yaml:"descriptors" help:"What the limits are asked by: each has entries, a list of sources or of {key, from, fold}, where fold counts spellings of a name as one; unless, a verified source that rids a request of it; and cost. Empty means the client's address alone."`
	Limit          []string              `yaml:"limit,omitempty" help:"Limits of this route's requests, in the words of --limit, such as 5/minute by ip; all counts all of its requests together. Each is named by its words and the route. They apply beside the rules."`
	Cost           int64                 `yaml:"cost" help:"What a request costs, in units. 0 means 1."`
	Priority       Priority              `yaml:"priority" help:"Priority of the requests: critical, default, sheddable, background, or a number, 0 the highest. Empty means default where there is a section shed, else 0."`
	Unlimited      bool                  `yaml:"unlimited" help:"Forward the requests without asking any limit."`
	Upstream       string                `yaml:"upstream" help:"Server to forward to. Empty means the general upstream."`
	StripPrefix    string                `yaml:"strip_prefix" help:"Prefix of the path that is not forwarded; the path of the upstream takes its place."`
	PreserveHost   bool                  `yaml:"preserve_host" help:"Send the client's Host to this route's upstream. Where the upstream is the general one, gateway.preserve_host holds too."`
	ConnectTimeout time.Duration         `yaml:"connect_timeout" help:"As gateway.connect_timeout, which holds where this is 0."`
	HeaderTimeout  time.Duration         `yaml:"header_timeout" help:"As gateway.header_timeout, which holds where this is 0."`
	Timeout        time.Duration         `yaml:"timeout" help:"As gateway.timeout, which holds where this is 0: a route that may take longer states how long, such as 24h for a stream."`
	MaxBody        Bytes                 `yaml:"max_body" help:"As gateway.max_body, which holds where this is 0: a route with larger bodies states how large."`
	MaxHeader      Bytes                 `yaml:"max_header" help:"Most bytes of a request's header fields, names and values; above it is answered 431. 0 means http.max_header_bytes."`
}

// Forwards reports whether there is a gateway. Routes without any upstream are for
// proxies that ask, where there are some.
func (c *Config) Forwards() bool {
	return c.Upstream != "" || len(c.Routes) > 0 && (!c.IsAsked() || hasUpstream(c.Routes))
}

// GatewayRoute returns the i-th route as the gateway has it.
func (c *Config) GatewayRoute(i int) (gateway.Route, error) {
	r := &c.Routes[i]
	descriptors, bad := r.AllDescriptors(i)
	out := gateway.Route{
		Route: identity.Route{
			Name: r.Name, Host: r.Host, Path: r.Path, Allow: r.Allow, Methods: r.Methods, Descriptors: descriptors,
			Cost: r.Cost, Unlimited: r.Unlimited, Priority: r.Priority.numberOr(c.DefaultPriority()),
		},
		Forward: gateway.Forward{
			StripPrefix: r.StripPrefix, PreserveHost: r.PreserveHost,
			ConnectTimeout: r.ConnectTimeout, HeaderTimeout: r.HeaderTimeout, Timeout: r.Timeout,
			MaxBody: int64(r.MaxBody), MaxHeader: int64(r.MaxHeader),
		},
	}
	var err error
	out.Forward.Upstream, err = parseUpstream(fmt.Sprintf("routes[%d].upstream", i), r.Upstream)
	if r.Upstream == "" && c.Upstream == "" && c.Forwards() {
		err = fmt.Errorf("routes[%d] has no upstream, and there is no general one: give it one, or --upstream", i)
	}
	err = errors.Join(bad, err)
	if r.Unlimited && (len(r.Descriptors) > 0 || len(r.Limit) > 0 || r.Cost != 0 || r.Priority != (Priority{})) {
		err = errors.Join(err, fmt.Errorf("routes[%d] is unlimited: remove its limit, descriptors, cost and priority", i))
	}
	return out, err
}

// GatewayOptions returns what the gateway is made with, but for what decides.
func (c *Config) GatewayOptions() (gateway.Options, error) {
	g := &c.Gateway
	opt := gateway.Options{
		Limits: httplimit.Options{
			Domain: c.API.Domain, MaxDelay: g.MaxDelay, MaxWaiting: int(min(max(g.MaxWaiting, -1), 1<<30)),
		},
		Default: gateway.Forward{
			PreserveHost: g.PreserveHost, ConnectTimeout: g.ConnectTimeout, HeaderTimeout: g.HeaderTimeout,
			Timeout: g.Timeout, MaxBody: int64(g.MaxBody),
		},
		ClientHeader: c.Identity.ClientHeader(),
		ProxyHeaders: c.Identity.ProxyHeaders(),
		HalfClosed:   g.HalfClosed,
		ClientFields: g.ClientFields,
	}
	var err error
	opt.Default.Upstream, err = c.UpstreamURL()
	errs := []error{err}
	for i := range c.Routes {
		r, err := c.GatewayRoute(i)
		opt.Routes, errs = append(opt.Routes, r), append(errs, err)
	}
	if g.ConnectTimeout <= 0 || g.HeaderTimeout <= 0 || g.MaxDelay <= 0 || g.MaxWaiting <= 0 || g.HalfClosed <= 0 {
		errs = append(errs, errors.New("gateway.connect_timeout, gateway.header_timeout, gateway.max_delay, gateway.max_delayed and gateway.half_closed_timeout must be more than 0"))
	}
	if g.Timeout < 0 {
		errs = append(errs, errors.New("gateway.timeout cannot be negative"))
	}
	return opt, errors.Join(errs...)
}

// parseUpstream reads the URL that what names, nil for an empty one.
func parseUpstream(what, text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is not a URL: give one such as http://127.0.0.1:3000", what)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, fmt.Errorf("%s %q must begin with http://, https://, or h2c:// for HTTP/2 without encryption", what, redact.URL(text))
	case u.Host == "":
		return nil, fmt.Errorf("%s %q names no host", what, redact.URL(text))
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("%s %q must not have a query, a fragment or a user", what, redact.URL(text))
	}
	return u, nil
}

// UpstreamURL returns the URL to forward to, nil when there is none.
func (c *Config) UpstreamURL() (*url.URL, error) { return parseUpstream("--upstream", c.Upstream) }

// IsAsked reports whether proxies ask here about requests that they forward
// themselves.
func (c *Config) IsAsked() bool { return c.ForwardAuth.Prefix != "" || c.ExtAuthz.Enabled }

// hasUpstream reports whether some route says where its requests go.
func hasUpstream(routes []Route) bool {
	return slices.ContainsFunc(routes, func(r Route) bool { return r.Upstream != "" })
}
