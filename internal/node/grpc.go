package node

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/listen"
)

// grpcService is what is served on the gRPC listener.
type grpcService struct {
	// name of the service, to gRPC's health service.
	name     string
	register func(grpc.ServiceRegistrar)
}

// openGRPCService builds a service. One without register is not served.
type openGRPCService func(s *Server) (grpcService, error)

// openGRPC builds the gRPC listener with the services of the table.
func openGRPC(s *Server) (frontend, error) {
	c := &s.conf.GRPC
	if c.Listen == "" || c.Listen == config.Defaults().GRPC.Listen && config.GuardsGRPC(s.conf) && len(s.conf.Trust) == 0 && !s.conf.ExtAuthz.Enabled {
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
	cert, err := s.certs.openCertificate(c.TLS, c.ClientSAN)
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
	f := frontend{listen: config.WithHost(c.Listen, config.AllHosts), tls: c.TLS, scheme: "grpc", maxConns: c.MaxConnections, serve: srv}
	if config.GuardsGRPC(s.conf) {
		trust, err := s.conf.TrustedPrefixes()
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
	return t.serve.Serve(ctx, listen.AcceptOnly(ln, t.trusts))
}

func (t trustingServer) trusts(a netip.Addr) bool {
	if config.ContainsAddr(t.trust, a) {
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
	if spans := s.telemetry.TraceGRPC(grpcserver.HeaderValues); spans != nil {
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
	svc, err := rls.New(rls.Options{Limiter: s.limiter, Answer: s.answer, Metadata: s.conf.GRPC.Metadata, Priority: s.conf.DefaultPriority(), Log: s.log})
	if err != nil {
		return grpcService{}, err
	}
	return grpcService{name: rls.Name, register: svc.Register}, nil
}

// openLimitService builds weir.v1, which answers as the HTTP API does.
func openLimitService(s *Server) (grpcService, error) {
	svc, err := grpcapi.New(grpcapi.Options{
		Limiter: s.limiter, Domain: s.conf.API.Domain, Reserver: s.reserver, Priority: s.conf.DefaultPriority(), Strict: s.conf.API.Strict, Log: s.log,
	})
	if err != nil {
		return grpcService{}, err
	}
	return grpcService{name: grpcapi.Name, register: svc.Register}, nil
}
