package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/address"
)

// Identity configures whom a request is taken to be from.
type Identity struct {
	Proxies        Proxies  `yaml:"proxies" embed:""`
	IPv4Prefix     int64    `yaml:"ipv4_prefix" kong:"-" was:"ipv4-prefix" default:"32" placeholder:"BITS" help:"Bits of an IPv4 address that name a client, 24 to 32."`
	IPv6Prefix     int64    `yaml:"ipv6_prefix" kong:"-" was:"ipv6-prefix" default:"64" placeholder:"BITS" help:"Bits of an IPv6 address that name a client, 48 to 128. A customer usually has a whole /64."`
	NAT64          []string `yaml:"nat64" kong:"-" was:"nat64" sep:"," placeholder:"CIDR" help:"Further NAT64 prefixes, of 96 bits: their addresses hold an IPv4 address in the last 32 bits. 64:ff9b::/96 is known."`
	Paths          Paths    `yaml:"paths" embed:""`
	MethodOverride string   `yaml:"method_override" kong:"-" was:"method-override" placeholder:"HEADER" help:"Header by which the upstream lets a POST be another method, such as X-HTTP-Method-Override. Give it if and only if the upstream does so."`
	APIKey         APIKey   `yaml:"api_key" embed:""`
	JWT            JWT      `yaml:"jwt" embed:""`
	User           []string `yaml:"user" name:"user-from" kong:"-" sep:"," placeholder:"SOURCE" help:"Source of a verified user; the first that has one wins. jwt:CLAIM, api_key (the user that the file of keys names), or header:NAME, accepted from trusted proxies only and dropped from others."`
	Tier           []string `yaml:"tier" name:"tier-from" kong:"-" sep:"," placeholder:"SOURCE" help:"Source of a client's tier; the first that has one wins. jwt:CLAIM, keys (what the file of keys says of the key, else of the user), or header:NAME, accepted from trusted proxies only and dropped from others."`
}

// APIKey configures the keys that clients send.
type APIKey struct {
	From       []string `yaml:"from" name:"api-key-from" kong:"-" sep:"," placeholder:"SOURCE" help:"Where a request has its API key; the first that has one wins. header:NAME, bearer, cookie:NAME, query:NAME."`
	SecretFile string   `yaml:"secret_file" kong:"-" was:"api-key-secret-file" placeholder:"FILE" help:"File whose content hashes API keys for counters, logs and events. At least 16 bytes; nodes that share counters need the same. Empty means random bytes of this process."`
	File       string   `yaml:"file" name:"api-keys" kong:"-" placeholder:"FILE" help:"File of the known API keys, with users and tiers. YAML or CSV: see docs/reference/identity.md. Changes are picked up while the server runs; a broken file changes nothing. Empty means that any key is accepted."`
}

// JWT configures which JSON Web Tokens are believed.
type JWT struct {
	From       []string      `yaml:"from" kong:"-" was:"jwt-from" sep:"," placeholder:"SOURCE" help:"Where a request has its token; the first that has one wins. bearer, header:NAME, cookie:NAME, query:NAME. Empty means bearer."`
	KeyFile    string        `yaml:"key_file" name:"jwt-key-file" kong:"-" placeholder:"FILE" help:"File with the public keys that sign JWTs. PEM, a JWK or a JWK set."`
	URL        string        `yaml:"url" name:"jwt-url" kong:"-" placeholder:"URL" help:"URL of the issuer's JWK set. https, or http on a loopback address."`
	SecretFile string        `yaml:"secret_file" kong:"-" was:"jwt-secret-file" placeholder:"FILE" help:"File whose content verifies HS256, HS384 and HS512. At least 32 bytes."`
	Algorithms []string      `yaml:"algorithms" kong:"-" was:"jwt-algorithms" sep:"," placeholder:"NAME" help:"Accepted signature algorithms. Empty means HS256 with a secret, else all of RS, PS, ES and EdDSA."`
	Issuers    []string      `yaml:"issuers" name:"jwt-issuers" kong:"-" sep:"," placeholder:"TEXT" help:"Accepted values of iss. Empty means any."`
	Audiences  []string      `yaml:"audiences" name:"jwt-audiences" kong:"-" sep:"," placeholder:"TEXT" help:"Accepted values of aud; a token must have one of them. Empty means any."`
	Leeway     time.Duration `yaml:"leeway" kong:"-" was:"jwt-leeway" default:"30s" placeholder:"DURATION" help:"Accepted difference of the issuer's clock, up to 5m."`
	Grace      time.Duration `yaml:"grace" kong:"-" default:"10m" placeholder:"DURATION" help:"How long after its end a token counts for its user, beside the address, up to 24h. At least the clock tolerance of the upstream. It opens nothing: see docs/reference/identity.md."`
	Refresh    time.Duration `yaml:"refresh" kong:"-" was:"jwt-refresh" default:"15m" placeholder:"DURATION" help:"How often the JWK set of identity.jwt.url is fetched, 1m to 24h."`
	CacheSize  int64         `yaml:"cache_size" kong:"-" was:"jwt-cache-size" default:"10000" placeholder:"N" help:"Number of verified tokens that are cached."`
}

// Proxies configures through whom requests come.
type Proxies struct {
	Trusted []string `yaml:"trusted" name:"trusted-proxies" sep:"," placeholder:"CIDR" help:"Proxies that may name the client. Addresses or prefixes. Other peers are not believed."`
	Unix    bool     `yaml:"unix" name:"trusted-unix" more:"" help:"Believe proxies on a Unix socket too, see --http. Without it all of them are one client."`
	Header  string   `yaml:"header" name:"client-ip-header" more:"" placeholder:"HEADER" help:"The one header in which trusted proxies name the client. Empty means X-Forwarded-For if there are trusted proxies."`
	Form    string   `yaml:"form" kong:"-" was:"client-ip-form" placeholder:"FORM" help:"Form of the header in which proxies name the client. It is list (as X-Forwarded-For), forwarded (RFC 7239) or single (one address, as X-Real-IP). Empty means the form of the header's name, single if it is neither of the first two."`
	Hops    int64    `yaml:"hops" kong:"-" was:"client-ip-hops" default:"0" placeholder:"N" help:"Number of proxies in front of the server, the peer included. The client is the address that many from the end of the header, for proxies whose addresses are not known. 0 means to skip trusted addresses."`
}

// Paths configures what the upstreams make of a path.
type Paths struct {
	IgnoreCase bool     `yaml:"ignore_case" kong:"-" was:"paths-ignore-case" help:"Ignore case in the paths of limits and routes, for upstreams to which /Login is /login."`
	Allow      []string `yaml:"allow" kong:"-" was:"paths-keep-encoded-slash" sep:"," placeholder:"WORD" help:"What the paths of requests may hold though servers read it in more than one way, on all routes and without one: backslash, parameters, encoded_slash, empty_segments. Other requests with them are refused with 400 where a limit or route reads the path. See docs/reference/identity.md."`
}

// DefaultClientHeader is where most proxies name the client.
const DefaultClientHeader = "X-Forwarded-For"

// ClientHeader returns the header in which trusted proxies name the client,
// empty for none.
func (c *Identity) ClientHeader() string {
	if c.Proxies.Header == "" && (len(c.Proxies.Trusted) > 0 || c.Proxies.Unix) {
		return DefaultClientHeader
	}
	return c.Proxies.Header
}

// ProxyHeaders returns the headers that name a user or a tier.
func (c *Identity) ProxyHeaders() []string {
	var out []string
	for _, s := range slices.Concat(c.User, c.Tier) {
		if name, ok := strings.CutPrefix(s, "header:"); ok {
			out = append(out, name)
		}
	}
	return out
}

// options returns what a resolver is made with, but for who verifies credentials.
func (c *Identity) options() (identity.Options, error) {
	opt := identity.Options{
		// Out of every range of identity.New what does not fit an int.
		IPv4Prefix: int(min(max(c.IPv4Prefix, -1), 1000)),
		IPv6Prefix: int(min(max(c.IPv6Prefix, -1), 1000)),
		Paths:      identity.PathOptions{IgnoreCase: c.Paths.IgnoreCase, Allow: c.Paths.Allow},

		MethodOverride: c.MethodOverride, User: c.User, Tier: c.Tier,
		APIKey: identity.APIKeyOptions{From: c.APIKey.From},
		Token:  identity.TokenOptions{From: c.JWT.From},
	}
	opt.Proxies.Header, opt.Proxies.Form = c.ClientHeader(), c.Proxies.Form
	opt.Proxies.Unix = c.Proxies.Unix
	opt.Proxies.Hops = int(min(max(c.Proxies.Hops, -1), 1000))
	var err error
	if opt.Proxies.Trusted, err = ParsePrefixes("--trusted-proxies", c.Proxies.Trusted); err != nil {
		return opt, err
	}
	opt.NAT64, err = ParsePrefixes("identity.nat64", c.NAT64)
	return opt, err
}

// checkOptions reports what is wrong with c that can be seen without its files.
func (c *Identity) checkOptions() error {
	_, err := c.options()
	return err
}

// jwtOptions returns which tokens are believed. Without any, its ok is false.
func (c *Identity) jwtOptions() (opt credentials.JWTOptions, ok bool, err error) {
	j := &c.JWT
	opt = credentials.JWTOptions{
		KeyFile: j.KeyFile, URL: j.URL, Algorithms: j.Algorithms, Issuers: j.Issuers, Audiences: j.Audiences,
		Leeway: j.Leeway, Grace: j.Grace, Refresh: j.Refresh, CacheSize: int(min(max(j.CacheSize, -1), 1<<30)),
	}
	if opt.Secret, err = ReadSecret("identity.jwt.secret_file", j.SecretFile); err != nil {
		return opt, false, err
	}
	ok = j.KeyFile != "" || j.URL != "" || j.SecretFile != "" ||
		len(j.From)+len(j.Algorithms)+len(j.Issuers)+len(j.Audiences) > 0
	return opt, ok, nil
}

// OpenResolver returns a resolver, and the file of API keys if there is one. Unless it fetches, no
// keys of tokens are fetched: tokens that need them are then not believed.
func (c *Identity) OpenResolver(log *slog.Logger, fetches bool) (*identity.Resolver, *credentials.KeyFile, error) {
	opt, err := c.options()
	if err != nil {
		return nil, nil, err
	}
	opt.Log = log
	if opt.APIKey.Secret, err = ReadSecret("identity.api_key.secret_file", c.APIKey.SecretFile); err != nil {
		return nil, nil, err
	}
	jwt, ok, err := c.jwtOptions()
	if err != nil {
		return nil, nil, err
	}
	var keys *credentials.KeyFile
	if c.APIKey.File != "" {
		if keys, err = credentials.LoadKeys(c.APIKey.File); err != nil {
			return nil, nil, fmt.Errorf("identity.api_key.file: %w", err)
		}
		opt.Keys = keys
	}
	if ok {
		jwt.Log = log
		if jwt.URL != "" && !fetches {
			// Which claims there are is known without the keys.
			jwt.URL, jwt.Algorithms, jwt.Secret = "", nil, make(identity.Secret, 32)
		}
		if opt.Token.Verifier, err = credentials.NewTokens(jwt); err != nil {
			return nil, nil, fmt.Errorf("the settings of identity: %w", err)
		}
	}
	who, err := identity.New(opt)
	if err != nil {
		return nil, nil, fmt.Errorf("the settings of %w", err)
	}
	return who, keys, nil
}

// ParsePrefixes reads addresses and prefixes that a flag gives.
func ParsePrefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		s = strings.TrimSpace(s)
		p, ok := address.Parse(s)
		if !ok {
			return nil, fmt.Errorf("%s %q is neither an address nor a prefix such as 10.0.0.0/8", flag, s)
		}
		out = append(out, p)
	}
	return out, nil
}

// ContainsAddr reports whether a is in one of the prefixes.
func ContainsAddr(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}
