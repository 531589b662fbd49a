package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/tier"
)

// Config is everything that a server is told. Each field can be given in the
// configuration file under its yaml name, in the environment, and as a flag of
// the name in its tag; see [Config.Layer] for which wins.
//
// The tags are the documentation: docs/configuration.md is made of them.
type Config struct {
	// What is limited.

	Rules      string   `yaml:"rules" name:"rules" placeholder:"FILE|DIR" help:"Rules to decide by: a YAML file, or a directory of them. Changes are picked up while the server runs; a broken file changes nothing."`
	Limits     []string `yaml:"limits" name:"limit" sep:";" placeholder:"LIMIT" help:"A limit in words, such as \"100/minute by ip\"; can be given several times, and all must allow. Form: N/PERIOD [by ip|client_id|all] [burst N] [using ALGORITHM]."`
	Upstream   string   `yaml:"upstream" name:"upstream" placeholder:"URL" help:"Forward what is allowed to this server and answer the rest with 429. The API's paths then answer only to --trust and to requests with the admin token."`
	Trust      []string `yaml:"trust" name:"trust" sep:"," placeholder:"CIDR" help:"Peers that may use the API's paths and gRPC when --upstream is given: addresses or prefixes, such as 127.0.0.1 for this machine. Nobody may otherwise, but requests with the admin token over HTTP. Behind a proxy that is listed here, all its clients are trusted unless --trusted-proxies lists it too."`
	Store      string   `yaml:"store" name:"store" default:"memory:" placeholder:"URL" help:"Where counters are kept. memory: keeps them in this process; memory:?max_bytes=512MiB bounds them. redis://HOST:PORT, redis+sentinel://, redis+cluster://, redis+ring:// (rediss for TLS) and memcached:// keep them where nodes share them."`
	StoreNodes int64    `yaml:"store_nodes" name:"store-nodes" default:"1" placeholder:"N" help:"How many nodes share the store at least. They find each other in Redis; with Memcached this is their number. What a node decides alone while the store is away is its share of a limit."`
	StoreHeld  Bytes    `yaml:"store_held" name:"store-held" default:"64MiB" placeholder:"BYTES" help:"Most memory for what this node holds of a store that nodes share: units fetched ahead, remembered refusals, debts. Half of it is for the keys with units, some 100 thousand of them in 64MiB; what has not been used for longest leaves first."`
	Region     string   `yaml:"region" name:"region" placeholder:"NAME" help:"The region this node is in, where there are several with a store each. Limits of eventual consistency, and those that do not say, are then counted by all regions together: see docs/regions.md."`
	Regions    []string `yaml:"regions" name:"regions" sep:";" placeholder:"NAME=URL" help:"The regions and their stores, such as eu=redis://redis.eu:6379; can be given several times. The same list on all nodes; that of --region stands for --store. A decision waits for none but its own; timeout in the URL of another (without one a second) is how long that is waited for when it is told what was admitted."`
	StoreStart string   `yaml:"store_start" name:"store-start" default:"fail" enum:"fail,serve" help:"What to do when the store cannot be reached at the start: ${enum}. fail ends with an error; serve starts, decides by each limit's on_store_error, and goes on trying. A store that is reached and refuses, as for a wrong password, is an error at the start in any case."`

	Overlay string `yaml:"overlay" name:"overlay" placeholder:"FILE" help:"File that keeps what operators lay over the rules across restarts, bans, overrides and modes, with FILE.modes and FILE.audit beside it, where nodes share no Redis: there they are kept in Redis. Empty means that they end with the process."`

	API      API      `yaml:"api" embed:""`
	HTTP     HTTP     `yaml:"http" embed:""`
	Identity Identity `yaml:"identity" embed:""`
	Gateway  Gateway  `yaml:"gateway" embed:""`

	ForwardAuth ForwardAuth `yaml:"forward_auth" embed:""`
	ExtAuthz    ExtAuthz    `yaml:"ext_authz" embed:""`

	Routes []Route `yaml:"routes" kong:"-" help:"What is asked about which requests, and where they go: see docs/gateway.md. Without one, or when none matches, the client's address is asked about and the general upstream is where they go."`
	Answer Answer  `yaml:"answer" embed:""`
	// Shed is nil while nothing is shed and nothing can be switched on.
	Shed      *shed.Options `yaml:"shed,omitempty" kong:"-"`
	GRPC      GRPC          `yaml:"grpc" embed:""`
	RESP      RESP          `yaml:"resp" embed:""`
	Admin     Admin         `yaml:"admin" embed:""`
	Events    Events        `yaml:"events" embed:""`
	Analytics Analytics     `yaml:"analytics" embed:""`
	Drain     Drain         `yaml:"drain" embed:""`
	Log       Log           `yaml:"log" embed:""`
	OTel      OTel          `yaml:"otel" embed:""`
}

// API configures what the HTTP API's questions mean.
type API struct {
	Domain         string        `yaml:"domain" name:"api-domain" default:"api" placeholder:"NAME" help:"Domain that /shouldAllowRequest asks, with the entry client_id."`
	ReserveKeyFile string        `yaml:"reserve_key_file" name:"reserve-key-file" placeholder:"FILE" help:"File whose content signs the handles of reservations, at least 16 bytes. Nodes with the same content settle each other's handles. Empty means a key of this process, which a restart forgets."`
	ReserveTTL     time.Duration `yaml:"reserve_ttl" name:"reserve-ttl" default:"10m" placeholder:"DURATION" help:"How long a reservation may wait to be committed or canceled, 1s to 24h; then it stays spent in full."`
}

// HTTP configures the listener that decides.
type HTTP struct {
	Listen            string        `yaml:"listen" name:"http" default:":8080" placeholder:"HOST:PORT" help:"Address of the HTTP API and of the gateway. Port 0 takes a free one. unix:PATH is a Unix socket, for a proxy on the same machine: see --trusted-unix."`
	TLS               TLS           `yaml:"tls" embed:"" prefix:"tls-"`
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" name:"http-read-header-timeout" default:"5s" placeholder:"DURATION" help:"Longest time to read a request's headers."`
	ReadTimeout       time.Duration `yaml:"read_timeout" name:"http-read-timeout" default:"1m" placeholder:"DURATION" help:"Longest time to read a whole request. 0 means no bound, for uploads through the gateway. The API waits ten seconds for a body at most."`
	WriteTimeout      time.Duration `yaml:"write_timeout" name:"http-write-timeout" default:"0s" placeholder:"DURATION" help:"Longest time from the end of a request's headers to the end of its answer. 0 means no bound, for downloads through the gateway."`
	IdleTimeout       time.Duration `yaml:"idle_timeout" name:"http-idle-timeout" default:"2m" placeholder:"DURATION" help:"How long a connection is kept between requests, and how long nothing may move on an upgraded one, such as a WebSocket. 0 means no bound for those."`
	StallTimeout      time.Duration `yaml:"stall_timeout" name:"http-stall-timeout" default:"1m" placeholder:"DURATION" help:"How long a client may take nothing of its answer, or send nothing of its body, before its request and, over HTTP/1, its connection are ended. 0 means no bound."`
	MaxStreams        int64         `yaml:"max_streams" name:"http-max-streams" default:"100" placeholder:"N" help:"Most requests at once on one HTTP/2 connection."`
	MaxHeaderBytes    Bytes         `yaml:"max_header_bytes" name:"http-max-header-bytes" default:"32KiB" placeholder:"BYTES" help:"Most bytes of a request's headers; above it is answered 431."`
	ProxyProtocol     []string      `yaml:"proxy_protocol" name:"proxy-protocol" sep:"," placeholder:"CIDR" help:"Peers that must begin each connection with a PROXY protocol header, version 1 or 2, that names the client: addresses or prefixes of load balancers. From others none is read."`
	MaxConnections    int64         `yaml:"max_connections" name:"http-max-connections" default:"16384" placeholder:"N" help:"Most connections at once; the one that is idle for longest is closed for a new one, and where none is idle further ones wait to be accepted. 0 means no bound."`
	MaxClientConns    int64         `yaml:"max_client_connections" name:"http-max-client-connections" default:"0" placeholder:"N" help:"Most connections of one client at once: an IPv4 address, or an IPv6 /64. A further one takes the place of its longest idle one, or is closed. Loopback, --trust and --trusted-proxies have no such bound. 0 means a quarter of --http-max-connections."`
}

// Admin configures the listener for operators.
type Admin struct {
	Listen    string `yaml:"listen" name:"admin" default:"127.0.0.1:6070" placeholder:"HOST:PORT" help:"Address of metrics, health, profiles and rule status. Empty means none."`
	Token     Secret `yaml:"token" name:"admin-token" placeholder:"TOKEN" help:"Token that admin requests carry as Authorization: Bearer TOKEN, at least 16 bytes. Required as soon as the admin address is not loopback."`
	TokenFile string `yaml:"token_file" name:"admin-token-file" placeholder:"FILE" help:"File that holds the admin token, in place of --admin-token."`
	TLS       TLS    `yaml:"tls" embed:"" prefix:"admin-tls-"`
}

// TLS configures encryption of a listener.
type TLS struct {
	Cert     string `yaml:"cert" name:"cert" placeholder:"FILE" help:"Certificate chain in PEM. Read again when the file changes."`
	Key      string `yaml:"key" name:"key" placeholder:"FILE" help:"Private key of the certificate in PEM."`
	ClientCA string `yaml:"client_ca" name:"client-ca" placeholder:"FILE" help:"Authorities in PEM; clients must then show a certificate signed by one of them."`
}

// Drain configures the end of a server.
type Drain struct {
	Delay   time.Duration `yaml:"delay" name:"drain-delay" default:"0s" placeholder:"DURATION" help:"How long to keep accepting after SIGTERM while readiness says 503, so that load balancers look elsewhere first. 5s suits Kubernetes."`
	Timeout time.Duration `yaml:"timeout" name:"drain-timeout" default:"20s" placeholder:"DURATION" help:"How long requests in flight may then take before they are cut. Upgraded connections, such as WebSockets, are waited for as long and then closed."`
}

// Log configures what is written to standard error.
type Log struct {
	Level  string `yaml:"level" name:"log-level" default:"info" enum:"debug,info,warn,error" help:"Least level that is logged: ${enum}."`
	Format string `yaml:"format" name:"log-format" default:"text" enum:"text,json" help:"Form of log lines: ${enum}."`
}

// Secret is a string that is never printed.
type Secret string

const redacted = "(redacted)"

// String returns a mark in place of a secret that is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalYAML implements yaml.InterfaceMarshaler.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// check reports everything about c that can be seen to be wrong without
// opening anything.
func (c *Config) check() error {
	if c.Rules == "" && len(c.Limits) == 0 && c.Shed == nil && c.RESP.Listen == "" {
		return errors.Join(errors.New("nothing to decide by: give rules (--rules FILE), or a limit in words (--limit \"100/minute by ip\"); or --resp PORT for Redis clients, whose limits come with each call"), c.checkSettings())
	}
	return c.checkSettings()
}

// checkSettings is check of what is given, whether or not there is anything to decide by.
func (c *Config) checkSettings() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.HTTP.Listen == "" {
		bad("--http (http.listen) is empty: give HOST:PORT")
	}
	if c.StoreNodes < 1 || c.StoreNodes > 10_000 {
		bad("--store-nodes is %d: it must be between 1 and 10000", c.StoreNodes)
	}
	if c.StoreHeld < tier.MinBytes {
		bad("--store-held is %s: it must be at least %s", c.StoreHeld, Bytes(tier.MinBytes))
	}
	if err := c.checkRegions(); err != nil {
		errs = append(errs, err)
	}
	if c.API.Domain == "" {
		bad("--api-domain (api.domain) is empty: name the domain that /shouldAllowRequest asks")
	}
	if _, err := c.trusted(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.gateway(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.Identity.check(), c.checkAsked())
	if _, err := prefixes("--proxy-protocol", c.HTTP.ProxyProtocol); err != nil {
		errs = append(errs, err)
	}
	for _, t := range []struct {
		name string
		TLS
	}{{"tls", c.HTTP.TLS}, {"admin-tls", c.Admin.TLS}, {"grpc-tls", c.GRPC.TLS}, {"resp-tls", c.RESP.TLS}} {
		if (t.Cert == "") != (t.Key == "") {
			bad("--%s-cert and --%s-key go together: one of them is missing", t.name, t.name)
		}
		if t.ClientCA != "" && t.Cert == "" {
			bad("--%s-client-ca needs --%s-cert and --%s-key", t.name, t.name, t.name)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"http-read-header-timeout", c.HTTP.ReadHeaderTimeout}, {"http-read-timeout", c.HTTP.ReadTimeout},
		{"http-write-timeout", c.HTTP.WriteTimeout}, {"http-idle-timeout", c.HTTP.IdleTimeout},
		{"http-stall-timeout", c.HTTP.StallTimeout},
		{"drain-delay", c.Drain.Delay}, {"drain-timeout", c.Drain.Timeout},
	} {
		if d.value < 0 {
			bad("--%s is %s: it cannot be negative", d.name, d.value)
		}
	}
	if c.HTTP.ReadHeaderTimeout == 0 {
		bad("--http-read-header-timeout is 0: a client could then hold a connection for ever; give a duration such as 5s")
	}
	if c.HTTP.MaxConnections < 0 {
		bad("--http-max-connections is %d: it cannot be negative", c.HTTP.MaxConnections)
	}
	if n := c.HTTP.MaxClientConns; n < 0 || c.HTTP.MaxConnections > 0 && n > c.HTTP.MaxConnections {
		bad("--http-max-client-connections is %d: it must be between 0, for a quarter of them, and --http-max-connections, %d", n, c.HTTP.MaxConnections)
	}
	if c.HTTP.MaxStreams < 1 || c.HTTP.MaxStreams > 1<<16 {
		bad("--http-max-streams is %d: it must be between 1 and 65536", c.HTTP.MaxStreams)
	}
	if c.HTTP.MaxHeaderBytes < 1024 || c.HTTP.MaxHeaderBytes > 1<<20 {
		bad("--http-max-header-bytes is %s: it must be between 1KiB and 1MiB", c.HTTP.MaxHeaderBytes)
	}
	if c.Admin.Token != "" && c.Admin.TokenFile != "" {
		bad("--admin-token and --admin-token-file are both given: keep one")
	}
	errs = append(errs, c.checkShed(), c.Events.check(), c.checkAnalytics(), c.GRPC.check(), c.RESP.check(), c.Answer.check(), c.Log.check(), c.OTel.check())
	return errors.Join(errs...)
}

// check is for the two words that come unchecked from a file.
func (l *Log) check() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return fmt.Errorf("--log-level (log.level) %q must be debug, info, warn or error", l.Level)
	}
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("--log-format (log.format) %q must be text or json", l.Format)
	}
	return nil
}

// trusted returns the prefixes of c.Trust.
func (c *Config) trusted() ([]netip.Prefix, error) { return prefixes("--trust", c.Trust) }

// upstream returns the URL to forward to, nil when there is none.
func (c *Config) upstream() (*url.URL, error) {
	if c.Upstream == "" {
		return nil, nil
	}
	return parseUpstream("--upstream", c.Upstream)
}

// adminToken returns the token that admin requests must carry, empty for none.
func (c *Config) adminToken() (string, error) {
	token := string(c.Admin.Token)
	if c.Admin.TokenFile != "" {
		data, err := readSecret(c.Admin.TokenFile)
		if err != nil {
			return "", fmt.Errorf("admin token: %w", err)
		}
		token = strings.TrimSpace(string(data))
		if token == "" {
			return "", fmt.Errorf("admin token: %s is empty", c.Admin.TokenFile)
		}
	}
	if token != "" && len(token) < minSecret {
		return "", errors.New("admin token is shorter than 16 bytes: `openssl rand -hex 16` makes a good one")
	}
	return token, nil
}
