package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/listen"
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

// grpcService is what is served on the gRPC listener.
type grpcService struct {
	// name of the service, to gRPC's health service.
	name     string
	register func(grpc.ServiceRegistrar)
}

// openGRPCService builds a service. One without register is not served.
type openGRPCService func(s *Server) (grpcService, error)

// check reports what is wrong with g that can be seen without opening anything.
func (g *GRPC) check() error {
	if g.Listen != "" && g.ClientSAN != "" && g.TLS.ClientCA == "" {
		return errors.New("grpc.client_san needs grpc.tls.client_ca: without it clients show no certificate")
	}
	return nil
}

// openGRPC builds the gRPC listener with the services of the table.
func openGRPC(s *Server) (frontend, error) {
	c := &s.conf.GRPC
	if c.Listen == "" || c.Listen == Defaults().GRPC.Listen && guardsGRPC(s.conf) && len(s.conf.Trust) == 0 && !s.conf.ExtAuthz.Enabled {
		return frontend{}, nil // it would answer nobody, and nobody asked for it
	}
	var services []grpcService
	var names []string
	for _, key := range slices.Sorted(maps.Keys(grpcServices)) {
		svc, err := grpcServices[key](s)
		if err != nil {
			return frontend{}, err
		}
		if svc.register != nil {
			services, names = append(services, svc), append(names, svc.name)
		}
	}
	cert, err := s.certs.open(c.TLS, c.ClientSAN)
	if err != nil {
		return frontend{}, err
	}
	srv, err := grpcserver.New(grpcserver.Options{
		Certificate:      cert,
		Health:           names,
		Reflection:       c.Reflection,
		MaxStreams:       uint32(c.MaxStreams),
		MaxCalls:         int(c.MaxCalls),
		MaxMessage:       int(c.MaxMessage),
		MaxUnsent:        int64(c.MaxUnsent),
		Bodies:           s.bodies,
		Undecoded:        extauthz.Repair,
		MaxHeader:        uint32(s.conf.HTTP.MaxHeaderBytes),
		CallTimeout:      c.CallTimeout,
		StallTimeout:     c.StallTimeout,
		HandshakeTimeout: c.HandshakeTimeout,
		PingAfter:        c.PingAfter,
		MinPing:          c.MinPing,
		MaxIdle:          c.MaxIdle,
		MaxAge:           c.MaxAge,
		MaxAgeGrace:      c.MaxAgeGrace,
		Delay:            s.conf.Drain.Delay,
		Drain:            max(s.conf.Drain.Timeout, time.Nanosecond),
		Workers:          uint32(c.Workers),
		Unary:            s.aroundCalls(),
		Log:              s.log,
	})
	if err != nil {
		return frontend{}, err
	}
	for _, svc := range services {
		svc.register(srv)
	}
	f := frontend{listen: withHost(c.Listen, onAllHosts), tls: c.TLS, scheme: "grpc", maxConns: c.MaxConnections, serve: srv}
	if guardsGRPC(s.conf) {
		trust, err := s.conf.trusted()
		if err != nil {
			return frontend{}, err
		}
		if len(trust) == 0 && s.conf.ExtAuthz.Enabled {
			s.log.Warn("ext_authz refuses all clients: with an upstream, gRPC needs --trust or certificates of grpc.tls.client_ca", "flag", "--trust ADDRESS-OF-ENVOY")
		}
		f.serve = trustingServer{srv, trust, new(faults.Networks), s.log}
	}
	return f, nil
}

// guardsGRPC reports whether gRPC is for trusted peers alone: strangers reach the
// node, and no certificate says who they are.
func guardsGRPC(c *Config) bool {
	return c.forwards() && c.GRPC.TLS.ClientCA == "" && !strings.HasPrefix(c.GRPC.Listen, unixPrefix)
}

// trustingServer serves trusted peers alone: where strangers reach the node, as in
// front of an upstream, a stranger must not spend another's quota. A loopback
// address proves nothing: a proxy on this machine has it.
type trustingServer struct {
	serve
	trust   []netip.Prefix
	refused *faults.Networks // those that were warned of
	log     *slog.Logger
}

// Serve implements serve.
func (t trustingServer) Serve(ctx context.Context, ln net.Listener) error {
	return t.serve.Serve(ctx, listen.Only(ln, t.trusts))
}

func (t trustingServer) trusts(a netip.Addr) bool {
	if containsAddr(t.trust, a) {
		return true
	}
	if log := t.refused.Log(t.log, a); log != nil {
		log.Warn("gRPC client refused: untrusted address; if it is yours, set the flag", "flag", "--trust "+a.String())
	}
	return false
}

// aroundCalls is what every call passes through, outermost first.
func (s *Server) aroundCalls() []grpc.UnaryServerInterceptor {
	timed := timedCalls(s.metrics.GRPC())
	if spans := s.telemetry.GRPC(grpcserver.Header); spans != nil {
		return []grpc.UnaryServerInterceptor{spans, timed}
	}
	return []grpc.UnaryServerInterceptor{timed}
}

// timedCalls tells how long calls took.
func timedCalls(record func(method, code string, took time.Duration)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		res, err := next(ctx, req)
		record(info.FullMethod, status.Code(err).String(), time.Since(began))
		return res, err
	}
}

// openRLS builds Envoy's rate limit service over the rules.
func openRLS(s *Server) (grpcService, error) {
	svc, err := rls.New(rls.Options{Limiter: s.limiter, Answer: s.answer, Metadata: s.conf.GRPC.Metadata, Priority: s.conf.priority(), Log: s.log})
	if err != nil {
		return grpcService{}, err
	}
	return grpcService{name: rls.Name, register: svc.Register}, nil
}

// openLimitService builds weir.v1, which answers as the HTTP API does.
func openLimitService(s *Server) (grpcService, error) {
	svc, err := grpcapi.New(grpcapi.Options{
		Limiter: s.limiter, Domain: s.conf.API.Domain, Reserver: s.reserver, Priority: s.conf.priority(), Log: s.log,
	})
	if err != nil {
		return grpcService{}, err
	}
	return grpcService{name: grpcapi.Name, register: svc.Register}, nil
}
