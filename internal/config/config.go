// Package config is what a node is told: every setting with its default, bounds and help,
// read from a file, flags and variables, and what follows from them alone. It opens nothing
// but files that settings name.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/shed"
)

// Config holds every setting of a server. The configuration file has each under
// its yaml name. A field with the tag name is an environment variable too, and a
// flag unless it has kong:"-"; see [Layer] for which wins. Without a name it is in the file
// alone. The help of serve only names flags with the tag more.
//
// The tags are the documentation: docs/reference/generated/configuration.md is made of them, and the
// first sentence of help stands in `weir serve --help`. The tag was has the flag
// of earlier versions, for the error that says where the setting is now.
type Config struct {
	// What is limited.

	Rules    string   `yaml:"rules" name:"rules" group:"Limits:" placeholder:"FILE|DIR" help:"Rules: a YAML file, or a directory of them. Changes are picked up while the server runs; a broken file changes nothing."`
	Limits   []string `yaml:"limits" name:"limit" group:"Limits:" sep:";" placeholder:"LIMIT" help:"A limit in words, such as \"100/minute by ip\". Can be given several times; all must allow. Form: N/PERIOD [by SOURCE [and SOURCE]] [burst N] [using ALGORITHM]. A source is ip, client_id, all, remote_address, user, api_key, tier, client, method, path, host, header:NAME, cookie:NAME, query:NAME or jwt:CLAIM; ip, for one address at the gateway and one clientId at the API, where there is none."`
	Upstream string   `yaml:"upstream" name:"upstream" group:"Limits:" placeholder:"URL" help:"Server that allowed requests are forwarded to. Refused ones are answered 429. The paths of the API then answer only to --trust and to requests with the admin token."`
	Trust    []string `yaml:"trust" name:"trust" group:"Limits:" sep:"," placeholder:"CIDR" help:"Peers that may use the API beside --upstream. Addresses or prefixes, such as 127.0.0.1 for this machine, for the paths of the API and for gRPC. Other peers need the admin token, over HTTP. Behind a proxy that is listed here all its clients are trusted, unless --trusted-proxies lists it too."`
	Overlay  string   `yaml:"overlay" name:"overlay" group:"Limits:" placeholder:"FILE" help:"File for bans, overrides and mode changes. It keeps them across restarts where nodes share no Redis, which keeps them otherwise; FILE.audit is beside it. Empty means that they end with the process."`
	API      API      `yaml:"api" embed:"" group:"Limits:"`

	Store      string   `yaml:"store" name:"store" group:"Store:" default:"memory:" placeholder:"URL" help:"Where counters are kept. memory: keeps them in this process; memory:?max_bytes=512MiB bounds them. redis://HOST:PORT, redis+sentinel://, redis+cluster://, redis+ring:// (rediss for TLS) and memcached:// keep them where nodes share them."`
	StoreNodes int64    `yaml:"store_nodes" name:"store-nodes" group:"Store:" default:"1" placeholder:"N" least:"1" most:"10000" help:"Least number of nodes that share the store. Nodes find each other in Redis; with Memcached this is their number. While the store is down, a node decides alone by its share of a limit."`
	StoreHeld  Bytes    `yaml:"store_local_max_bytes" kong:"-" was:"store-held" default:"64MiB" placeholder:"BYTES" help:"Most memory for the state of the shared store on this node. That is leases, the deny cache and debts. Half of it is for leases, some 100 thousand in 64MiB; what was used longest ago is evicted first."`
	Region     string   `yaml:"region" name:"region" more:"" group:"Store:" placeholder:"NAME" help:"Region of this node, where there are several. Limits of eventual consistency, and those that do not say, are then counted by all regions together: see docs/explanation/regions.md."`
	Regions    []string `yaml:"regions" name:"regions" more:"" group:"Store:" sep:";" placeholder:"NAME=URL" help:"The regions and their stores, such as eu=redis://redis.eu:6379. Can be given several times. All nodes need the same list; the store of --region replaces --store. A decision waits only for the store of its own region; timeout in the URL of another, a second by default, bounds each synchronization with it."`
	StoreStart string   `yaml:"store_start" name:"store-start" more:"" group:"Store:" default:"fail" enum:"fail,serve" help:"What to do when the store is down at the start. fail ends with an error; serve starts, decides by the on_store_error of each limit, and retries. A store that is reached and refuses, as for a wrong password, is an error at the start in any case."`

	HTTP  HTTP  `yaml:"http" embed:"" group:"Listeners:"`
	GRPC  GRPC  `yaml:"grpc" embed:"" group:"Listeners:"`
	RESP  RESP  `yaml:"resp" embed:"" group:"Listeners:"`
	Admin Admin `yaml:"admin" embed:"" group:"Listeners:"`

	Identity    Identity    `yaml:"identity" embed:"" group:"Clients and proxies:"`
	Gateway     Gateway     `yaml:"gateway" embed:"" group:"Clients and proxies:"`
	ForwardAuth ForwardAuth `yaml:"forward_auth" embed:"" group:"Clients and proxies:"`
	ExtAuthz    ExtAuthz    `yaml:"ext_authz" embed:"" group:"Clients and proxies:"`

	Routes []Route `yaml:"routes" kong:"-" help:"What is asked about which requests, and where they go: see docs/reference/gateway.md. Without one, or when none matches, the client's address is asked about and the general upstream is where they go."`
	Answer Answer  `yaml:"response" embed:"" group:"Clients and proxies:"`
	// Shed is nil while nothing is shed and nothing can be switched on.
	Shed      *shed.Options `yaml:"shed,omitempty" kong:"-"`
	Events    Events        `yaml:"events" embed:"" group:"Events and analytics:"`
	Analytics Analytics     `yaml:"analytics" embed:"" group:"Events and analytics:"`
	Drain     Drain         `yaml:"drain" embed:"" group:"Process:"`
	Log       Log           `yaml:"log" embed:"" group:"Process:"`
	OTel      OTel          `yaml:"otel" embed:"" group:"Process:"`
}

// API configures what the HTTP API's questions mean.
type API struct {
	Domain         string        `yaml:"domain" name:"api-domain" kong:"-" default:"api" placeholder:"NAME" help:"Domain of /shouldAllowRequest. Its requests have the entry client_id."`
	Strict         bool          `yaml:"strict" name:"api-strict" kong:"-" help:"Answer an error to requests of the HTTP API, gRPC and Redis clients that meet no rule, or have a descriptor that no rule can match, unless they say strict: false. Else they are allowed."`
	ReserveKeyFile string        `yaml:"reserve_key_file" name:"reserve-key-file" kong:"-" placeholder:"FILE" help:"File whose content signs the handles of reservations. At least 16 bytes; nodes with the same content accept the handles of each other. Empty means a random key, which a restart changes."`
	ReserveTTL     time.Duration `yaml:"reserve_ttl" kong:"-" was:"reserve-ttl" default:"10m" placeholder:"DURATION" help:"How long a reservation may wait to be committed or canceled. 1s to 24h; then it stays charged in full."`
}

// HTTP configures the listener that decides.
type HTTP struct {
	Listen            string        `yaml:"listen" name:"http" default:":8080" placeholder:"[HOST:]PORT" help:"Address of the HTTP API and of the gateway. A port alone is on all addresses; port 0 takes a free one. unix:PATH is a Unix socket, for a proxy on the same machine: see --trusted-unix. off means none, for a node that serves gRPC or Redis clients alone."`
	TLS               TLS           `yaml:"tls" embed:"" prefix:"tls-"`
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" kong:"-" was:"http-read-header-timeout" default:"5s" placeholder:"DURATION" positive:"" help:"Longest time to read the headers of a request."`
	ReadTimeout       time.Duration `yaml:"read_timeout" kong:"-" was:"http-read-timeout" default:"1m" placeholder:"DURATION" least:"0" help:"Longest time to read a whole request. 0 means no bound, for uploads through the gateway. The API waits ten seconds for a body at most."`
	WriteTimeout      time.Duration `yaml:"write_timeout" kong:"-" was:"http-write-timeout" default:"0s" placeholder:"DURATION" least:"0" help:"Longest time from the end of the request's headers to the end of the response. 0 means no bound, for downloads through the gateway."`
	IdleTimeout       time.Duration `yaml:"idle_timeout" kong:"-" was:"http-idle-timeout" default:"2m" placeholder:"DURATION" least:"0" help:"How long a connection may be idle between requests. It also bounds how long an upgraded connection, such as a WebSocket, may be idle; 0 means no bound for those."`
	StallTimeout      time.Duration `yaml:"stall_timeout" kong:"-" was:"http-stall-timeout" default:"1m" placeholder:"DURATION" least:"0" help:"How long a client may read nothing of its response, or send nothing of its body. Then its request and, over HTTP/1, its connection are ended. 0 means no bound."`
	MaxStreams        int64         `yaml:"max_streams" kong:"-" was:"http-max-streams" default:"100" placeholder:"N" least:"1" most:"65536" help:"Most concurrent requests on one HTTP/2 connection."`
	MaxHeaderBytes    Bytes         `yaml:"max_header_bytes" kong:"-" was:"http-max-header-bytes" default:"32KiB" placeholder:"BYTES" least:"1KiB" most:"1MiB" help:"Most bytes of the headers of a request; above it the response is 431."`
	ProxyProtocol     []string      `yaml:"proxy_protocol" name:"proxy-protocol" more:"" sep:"," placeholder:"CIDR" help:"Load balancers that send the PROXY protocol header. Addresses or prefixes of peers that must begin each connection with it, version 1 or 2. It is not read from other peers."`
	MaxConnections    int64         `yaml:"max_connections" kong:"-" was:"http-max-connections" default:"16384" placeholder:"N" least:"0" help:"Most concurrent connections. The one that is idle for longest is closed for a new one; where none is idle, new ones wait to be accepted. 0 means no bound."`
	MaxClientConns    int64         `yaml:"max_client_connections" kong:"-" was:"http-max-client-connections" default:"0" placeholder:"N" help:"Most concurrent connections of one client: an IPv4 address, or an IPv6 /64. A further one replaces its longest idle one, or is closed. Loopback, trust and identity.proxies.trusted have no such bound. 0 means a quarter of http.max_connections."`
}

// Admin configures the listener for operators.
type Admin struct {
	Listen    string `yaml:"listen" name:"admin" default:"127.0.0.1:6070" placeholder:"[HOST:]PORT" help:"Address of metrics and dashboard. Health, profiles and the state of the rules are there too. A port alone is on 127.0.0.1. off means none."`
	Token     Secret `yaml:"token" name:"admin-token" kong:"-" placeholder:"TOKEN" help:"Token of admin requests, at least 16 bytes. They carry it as Authorization: Bearer TOKEN. Required as soon as the admin address is not loopback."`
	TokenFile string `yaml:"token_file" name:"admin-token-file" placeholder:"FILE" help:"File with the token of admin requests. It is in place of admin.token (WEIR_ADMIN_TOKEN)."`
	TLS       TLS    `yaml:"tls" embed:"" prefix:"admin-tls-"`
}

// TLS configures encryption of a listener.
type TLS struct {
	Cert     string `yaml:"cert" name:"cert" kong:"-" placeholder:"FILE" help:"Certificate chain in PEM. Reloaded when the file changes."`
	Key      string `yaml:"key" name:"key" kong:"-" placeholder:"FILE" help:"Private key of the certificate in PEM."`
	ClientCA string `yaml:"client_ca" name:"client-ca" kong:"-" placeholder:"FILE" help:"Authorities, in PEM, that sign the certificates of clients. Clients must then show one."`
}

// Drain configures the end of a server.
type Drain struct {
	Delay   time.Duration `yaml:"delay" name:"drain-delay" more:"" default:"0s" placeholder:"DURATION" least:"0" help:"How long to accept requests after SIGTERM while not ready. Readiness is 503 meanwhile, so that load balancers stop sending. 5s suits Kubernetes."`
	Timeout time.Duration `yaml:"timeout" name:"drain-timeout" more:"" default:"20s" placeholder:"DURATION" least:"0" help:"How long requests in flight may then take. Then they are cut. Upgraded connections, such as WebSockets, are waited for as long and then closed."`
}

// Log configures what is written to standard error.
type Log struct {
	Level  string `yaml:"level" name:"log-level" more:"" default:"info" enum:"debug,info,warn,error" help:"Least level that is logged. One of ${enum}."`
	Format string `yaml:"format" name:"log-format" more:"" default:"text" enum:"text,json" help:"Format of log lines. One of ${enum}."`
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

// checkFiles reports what is missing of the files of a listener in a section.
func (t *TLS) checkFiles(section string) error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return fmt.Errorf("%s.cert and %[1]s.key go together: one of them is missing", section)
	case t.ClientCA != "" && t.Cert == "":
		return fmt.Errorf("%s.client_ca needs %[1]s.cert and %[1]s.key", section)
	}
	return nil
}

// OpenCertificate opens the certificate of a listener, nil for one without. client is the
// name that the certificates of clients must be for, empty for any.
func (t *TLS) OpenCertificate(client string, log *slog.Logger) (*certfile.Certificate, error) {
	if t.Cert == "" {
		return nil, nil
	}
	return certfile.Open(certfile.Files{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, ClientSAN: client}, log)
}

// checkToken reports a token that is given twice.
func (a *Admin) checkToken() error {
	if a.Token != "" && a.TokenFile != "" {
		return errors.New("admin.token (WEIR_ADMIN_TOKEN) and --admin-token-file are both given: keep one")
	}
	return nil
}

// checkWords is for the two words that come unchecked from a file.
func (l *Log) checkWords() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return fmt.Errorf("--log-level (log.level) %q must be debug, info, warn or error", l.Level)
	}
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("--log-format (log.format) %q must be text or json", l.Format)
	}
	return nil
}

// TrustedPrefixes returns the prefixes of c.Trust.
func (c *Config) TrustedPrefixes() ([]netip.Prefix, error) { return ParsePrefixes("--trust", c.Trust) }

// ReadToken returns the token that admin requests must carry, empty for none.
func (a *Admin) ReadToken() (string, error) {
	token := string(a.Token)
	if a.TokenFile != "" {
		data, err := ReadSecret("admin token", a.TokenFile)
		if err != nil {
			return "", err
		}
		token = strings.TrimSpace(string(data))
		if token == "" {
			return "", fmt.Errorf("admin token: %s is empty", a.TokenFile)
		}
	}
	if token != "" && len(token) < minSecret {
		return "", errors.New("the admin token has fewer than 16 bytes: use `openssl rand -hex 16`")
	}
	return token, nil
}

// SharedAddrs returns what reports whether many clients come from an address.
func SharedAddrs(c *Config) (func(netip.Addr) bool, error) {
	proxies, err := ParsePrefixes("--trust", slices.Concat(c.Trust, c.Identity.Proxies.Trusted))
	if err != nil {
		return nil, err
	}
	return func(a netip.Addr) bool {
		return a.IsLoopback() || ContainsAddr(proxies, a)
	}, nil
}
