package config

import (
	"errors"
	"strings"
	"time"
)

// GRPC configures the listener that speaks gRPC.
type GRPC struct {
	Listen           string        `yaml:"listen" name:"grpc" default:":8081" placeholder:"[HOST:]PORT" help:"Address of gRPC, for Envoy and weir.v1. See docs/reference/grpc.md. With --upstream only --trust may connect, unless grpc.tls.client_ca authenticates clients; while there is neither, the default opens nothing. A port alone is on all addresses; port 0 takes a free one; unix:PATH is a Unix socket. off means none."`
	TLS              TLS           `yaml:"tls" embed:"" prefix:"grpc-tls-"`
	ClientSAN        string        `yaml:"client_san" kong:"-" was:"grpc-client-san" placeholder:"NAME" help:"Name or address that the certificates of clients must be for, beside being signed by grpc.tls.client_ca. Empty means any."`
	Reflection       bool          `yaml:"reflection" kong:"-" was:"grpc-reflection" default:"true" help:"Serve gRPC reflection, for clients such as grpcurl."`
	MaxConnections   int64         `yaml:"max_connections" kong:"-" was:"grpc-max-connections" default:"16384" placeholder:"N" least:"0" most:"2147483647" help:"Most concurrent gRPC connections, and a quarter of them for one client: an IPv4 address, or an IPv6 /64. The one that is without calls for longest is closed for a new one; where there is none, new ones wait to be accepted. 0 means no bound."`
	MaxStreams       int64         `yaml:"max_streams" kong:"-" was:"grpc-max-streams" default:"1000" placeholder:"N" least:"1" most:"65536" help:"Most concurrent calls on one gRPC connection."`
	MaxCalls         int64         `yaml:"max_calls" kong:"-" was:"grpc-max-calls" default:"16384" placeholder:"N" least:"1" most:"16777216" help:"Most concurrent calls on all gRPC connections; further ones are answered UNAVAILABLE."`
	MaxMessage       Bytes         `yaml:"max_message" kong:"-" was:"grpc-max-message" default:"1MiB" placeholder:"BYTES" least:"1KiB" most:"64MiB" help:"Most bytes of a gRPC message that is received."`
	MaxUnsent        Bytes         `yaml:"max_unsent" kong:"-" was:"grpc-max-unsent" default:"256MiB" placeholder:"BYTES" least:"1MiB" help:"Most bytes of responses that gRPC clients have not read; beyond it the connection with the most of them is closed."`
	CallTimeout      time.Duration `yaml:"call_timeout" kong:"-" was:"grpc-call-timeout" default:"10s" placeholder:"DURATION" positive:"" help:"Longest time for a gRPC call, where the client's own deadline is not nearer."`
	StallTimeout     time.Duration `yaml:"stall_timeout" kong:"-" was:"grpc-stall-timeout" default:"1m" placeholder:"DURATION" positive:"" help:"How long a gRPC client may read nothing of what it is sent."`
	HandshakeTimeout time.Duration `yaml:"handshake_timeout" kong:"-" was:"grpc-handshake-timeout" default:"5s" placeholder:"DURATION" positive:"" help:"Longest time until a new gRPC connection speaks TLS and HTTP/2."`
	PingAfter        time.Duration `yaml:"ping_after" kong:"-" was:"grpc-ping-after" default:"1m" placeholder:"DURATION" positive:"" help:"How long a gRPC client may be silent before it is pinged; the connection is closed after 20s without a response."`
	MinPing          time.Duration `yaml:"min_ping" kong:"-" was:"grpc-min-ping" default:"10s" placeholder:"DURATION" positive:"" help:"Least time between the pings of a gRPC client; the connection of one that sends more is closed."`
	MaxIdle          time.Duration `yaml:"max_idle" kong:"-" was:"grpc-max-idle" default:"0s" placeholder:"DURATION" least:"0" help:"How long a gRPC connection is kept without a call. 0 means for ever."`
	MaxAge           time.Duration `yaml:"max_age" kong:"-" was:"grpc-max-age" default:"1h" placeholder:"DURATION" least:"0" help:"How long a gRPC connection is kept, give or take a tenth, so that clients spread anew over the nodes. 0 means for ever."`
	MaxAgeGrace      time.Duration `yaml:"max_age_grace" kong:"-" was:"grpc-max-age-grace" default:"1m" placeholder:"DURATION" least:"0" help:"How long calls may go on beyond grpc.max_age before they are cut. 0 means for ever."`
	Metadata         bool          `yaml:"metadata" kong:"-" was:"grpc-metadata" default:"false" help:"Add dynamic metadata to the responses that Envoy gets: the limit that decided and the guarantee of the decision."`
	Workers          int64         `yaml:"workers" kong:"-" was:"grpc-workers" default:"64" placeholder:"N" least:"0" most:"65536" help:"Goroutines that serve gRPC calls in turns; calls beyond them have one of their own. 0 means that each call has one of its own."`
}

// checkClients reports what is wrong with g that can be seen without opening anything.
func (g *GRPC) checkClients() error {
	if g.Listen != "" && g.ClientSAN != "" && g.TLS.ClientCA == "" {
		return errors.New("grpc.client_san needs grpc.tls.client_ca: without it clients show no certificate")
	}
	return nil
}

// GuardsGRPC reports whether gRPC is for trusted peers alone: strangers reach the
// node, and no certificate says who they are.
func GuardsGRPC(c *Config) bool {
	return c.Forwards() && c.GRPC.TLS.ClientCA == "" && !strings.HasPrefix(c.GRPC.Listen, UnixPrefix)
}
