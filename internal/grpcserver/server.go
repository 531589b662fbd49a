// Package grpcserver is a gRPC listener with a bound on everything that a client
// can stretch, which ends without dropping a call.
//
// Register services with the functions that protoc-gen-go-grpc makes, then
// Serve. Health and, if wanted, reflection are there.
package grpcserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/listen"
)

// Options configures a [Server].
type Options struct {
	// Certificate encrypts connections; who opened it watches it. Nil means that
	// they are not encrypted.
	Certificate *certfile.Certificate
	// Health are the services that the health service knows, beside "", the
	// server as a whole. Zero means none.
	Health []string
	// Reflection tells clients what services there are. Zero means that it is
	// off.
	Reflection bool
	// MaxConnections bounds connections at once; further ones wait to be
	// accepted. Zero means no bound.
	MaxConnections int64
	// MaxStreams bounds the calls at once on one connection. Zero means 1000.
	MaxStreams uint32
	// MaxCalls bounds the calls at once on all connections; those above it get
	// UNAVAILABLE. Zero means 16384.
	MaxCalls int
	// MaxMessage bounds a message that is received, in bytes. Zero means 1 MiB.
	MaxMessage int
	// MaxHeader bounds the metadata of a call, in bytes. Zero means 32 KiB.
	MaxHeader uint32
	// MaxUnsent bounds the answers that clients have not taken, of all connections
	// together, in bytes, with some for each call. Beyond it the connection with the
	// most is closed. Zero means 256 MiB.
	MaxUnsent int64
	// Bodies bounds what calls hold of messages that are sent to them until they are
	// answered, with the bodies of other front ends; a call for which there is no room
	// gets RESOURCE_EXHAUSTED. Nil means 64 MiB for this server alone.
	Bodies *bodies.Budget
	// Check is called with each message that is to be decoded by generated code, and what
	// was sent: decoded it may take many times as much memory. Where it returns an error
	// the message is not decoded, and the call gets INTERNAL with that error. Nil means
	// that all are decoded.
	Check func(message any, data []byte) error
	// Undecoded is called with each message that generated code does not decode, and what
	// was sent; what it returns is decoded in its place, and else the call gets INTERNAL.
	// Nil means that it does in any case.
	Undecoded func(message any, data []byte, err error) []byte
	// CallTimeout bounds a call that is not a stream, from its first byte to its
	// last, where the client's own deadline is not nearer; streams of the
	// reflection service too. Zero means ten seconds.
	CallTimeout time.Duration
	// StallTimeout is how long a client may take nothing of what it is sent, or of
	// the answers that wait until it gives them room. Zero means a minute.
	StallTimeout time.Duration
	// HandshakeTimeout bounds the time in which a connection begins to speak TLS
	// and HTTP/2. Zero means five seconds.
	HandshakeTimeout time.Duration
	// PingAfter is the time without a sign of life after which a client is pinged,
	// at least a second. Zero means a minute.
	PingAfter time.Duration
	// PingTimeout is how long a client may take to answer a ping before it is cut
	// off. Zero means twenty seconds.
	PingTimeout time.Duration
	// MinPing is the least time between the pings of a client; who sends more is
	// cut off. Zero means ten seconds.
	MinPing time.Duration
	// MaxIdle is how long a connection is kept without a call. Zero means for
	// ever.
	MaxIdle time.Duration
	// MaxAge is how long a connection is kept, give or take a tenth, so that
	// clients spread anew over the nodes. Zero means for ever.
	MaxAge time.Duration
	// MaxAgeGrace is how long calls may go on after MaxAge before they are cut.
	// Zero means for ever.
	MaxAgeGrace time.Duration
	// Delay is how long calls are accepted after the end of Serve's context,
	// while health says NOT_SERVING. Zero means not at all.
	Delay time.Duration
	// Drain bounds how long calls under way may then take before they are cut.
	// Zero means twenty seconds.
	Drain time.Duration
	// Workers is how many goroutines answer calls in turns; calls beyond them
	// get one of their own, which has to grow its stack first. Zero means that each
	// call does.
	Workers uint32
	// Unary is called around every call that is not a stream, in order. Zero
	// means nothing.
	Unary []grpc.UnaryServerInterceptor
	// Log is told of handlers that panicked. Nil means nobody.
	Log *slog.Logger
}

// DefaultWorkers are enough for the calls that a few processors can be busy with.
const DefaultWorkers = 64

// maxReflecting is how many may ask the reflection service at once: it serves people
// who look around.
const maxReflecting = 8

// reflects reports whether a method is of the reflection service.
func reflects(method string) bool { return strings.HasPrefix(method, "/grpc.reflection.") }

// Server answers gRPC on one listener. Services are registered before Serve;
// after that it is safe for concurrent use.
type Server struct {
	opt      Options
	services []service
	// grpc is made by Serve: its workers run from the beginning.
	grpc   *grpc.Server
	health *health.Server
	calls  *calls
	codec  codec
	unsent *unsent
	// unfinished counts what calls hold of messages.
	unfinished *unfinished
	// reflecting holds the calls of the reflection service, whose answers are large.
	reflecting chan struct{}
	// streams are the methods that are streams and may last, set by Serve.
	streams map[string]bool
	// drains ends the streams that would go on for ever.
	drains     context.Context
	endStreams context.CancelFunc
	stopped    atomic.Bool
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// New returns a server. It returns an error when an option is out of range.
func New(opt Options) (*Server, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"call timeout", &opt.CallTimeout, 10 * time.Second}, {"stall timeout", &opt.StallTimeout, time.Minute},
		{"handshake timeout", &opt.HandshakeTimeout, 5 * time.Second}, {"ping interval", &opt.PingAfter, time.Minute}, {"ping timeout", &opt.PingTimeout, 20 * time.Second},
		{"least ping interval", &opt.MinPing, 10 * time.Second}, {"greatest idle time", &opt.MaxIdle, 0},
		{"greatest age", &opt.MaxAge, 0}, {"grace beyond the greatest age", &opt.MaxAgeGrace, 0},
		{"drain delay", &opt.Delay, 0}, {"drain timeout", &opt.Drain, 20 * time.Second},
	} {
		if *d.value < 0 {
			return nil, fmt.Errorf("grpcserver: %s %s must not be negative", d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.zero)
	}
	if opt.MaxCalls < 0 || opt.MaxConnections < 0 || opt.MaxUnsent < 0 || opt.MaxMessage < 0 || opt.MaxMessage > math.MaxInt32 {
		return nil, errors.New("grpcserver: the bounds on calls, connections, responses and messages must not be negative, nor messages above 2 GiB")
	}
	opt.MaxStreams = cmp.Or(opt.MaxStreams, 1000)
	opt.MaxCalls = cmp.Or(opt.MaxCalls, 16384)
	opt.MaxMessage = cmp.Or(opt.MaxMessage, 1<<20)
	opt.MaxHeader = cmp.Or(opt.MaxHeader, 32<<10)
	opt.MaxUnsent = cmp.Or(opt.MaxUnsent, 256<<20)
	opt.Bodies = cmp.Or(opt.Bodies, bodies.New(0))
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	s := &Server{opt: opt, health: health.NewServer()}
	s.calls = newCalls(opt.MaxCalls)
	s.drains, s.endStreams = context.WithCancel(context.Background())
	s.unsent = newUnsent(opt.MaxUnsent)
	s.unfinished = &unfinished{budget: opt.Bodies, most: int(opt.MaxStreams), faults: faults.New(opt.Log)}
	s.reflecting = make(chan struct{}, maxReflecting)
	var err error
	if s.codec, err = newCodec(opt.Check, opt.Undecoded); err != nil {
		return nil, err
	}
	healthpb.RegisterHealthServer(s, s.health)
	for _, name := range opt.Health {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	opt := &s.opt
	options := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(opt.MaxStreams),
		grpc.MaxRecvMsgSize(opt.MaxMessage),
		grpc.MaxHeaderListSize(opt.MaxHeader),
		grpc.ConnectionTimeout(opt.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: opt.MaxIdle, MaxConnectionAge: opt.MaxAge, MaxConnectionAgeGrace: opt.MaxAgeGrace,
			Time: opt.PingAfter, Timeout: opt.PingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: opt.MinPing, PermitWithoutStream: true}),
		// The window of a stream does not grow by what a client claims to need:
		// messages are small.
		grpc.StaticStreamWindowSize(64 << 10),
		grpc.StaticConnWindowSize(1 << 20),
		grpc.NumStreamWorkers(opt.Workers),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(s.tapCall),
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{s.recoverUnary}, opt.Unary...)...),
		grpc.ChainStreamInterceptor(s.recoverStream),
	}
	if opt.Certificate != nil {
		options = append(options, grpc.Creds(countingCredentials{credentials.NewTLS(opt.Certificate.Config()), s.unfinished}))
	}
	return options
}

// A service is one that is registered.
type service struct {
	desc *grpc.ServiceDesc
	impl any
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.services = append(s.services, service{desc, impl})
}

// SetServing says what the health service answers about a service; "" is the
// server as a whole. When the server drains it is NOT_SERVING whatever is set.
func (s *Server) SetServing(service string, serving bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, state)
}

// recoverUnary keeps a handler that panics from ending the process, as net/http does.
func (s *Server) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	defer func() {
		s.calls.endCall(ctx)
		if p := recover(); p != nil {
			err = s.reportPanic(info.FullMethod, p)
		}
	}()
	res, err = next(ctx, req)
	return s.codec.wrapAnswer(res, connOf(ctx)), err
}

func (s *Server) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if reflects(info.FullMethod) {
		select {
		case s.reflecting <- struct{}{}:
			defer func() { <-s.reflecting }()
		default:
			s.calls.endCall(stream.Context())
			return status.Error(codes.ResourceExhausted, "too many ask the reflection service at once")
		}
	}
	ctx, cancel := context.WithCancel(stream.Context())
	stop := context.AfterFunc(s.drains, cancel)
	defer func() {
		stop()
		cancel()
		s.calls.endCall(stream.Context())
		if p := recover(); p != nil {
			err = s.reportPanic(info.FullMethod, p)
		}
	}()
	return next(srv, endingStream{stream, ctx, s.codec, connOf(ctx)})
}

// endingStream is a stream whose context ends when the server drains.
type endingStream struct {
	grpc.ServerStream
	ctx   context.Context
	codec codec
	conn  *conn
}

// SendMsg implements grpc.ServerStream.
func (s endingStream) SendMsg(m any) error {
	return s.ServerStream.SendMsg(s.codec.wrapAnswer(m, s.conn))
}

// Context implements grpc.ServerStream.
func (s endingStream) Context() context.Context { return s.ctx }

func (s *Server) reportPanic(method string, p any) error {
	s.opt.Log.Error("panic in a gRPC handler; call failed", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call broke its handler; the log says more")
}

// Serve answers on ln until ctx ends, then drains: health says NOT_SERVING, and
// after Delay clients are told to go elsewhere and calls under way are finished.
// It returns nil when every call was answered. Call it once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.stopped.Swap(true) {
		return errors.Join(errors.New("grpcserver: a server serves once"), ln.Close())
	}
	s.grpc = grpc.NewServer(append(s.options(), grpc.ForceServerCodecV2(s.codec))...)
	for _, v := range s.services {
		s.grpc.RegisterService(v.desc, v.impl)
	}
	if s.opt.Reflection {
		reflection.Register(s.grpc)
	}
	s.streams = lasting(s.grpc.GetServiceInfo())
	ln = listen.Stall(listen.Limit(ln, listen.Limits{Max: s.opt.MaxConnections, Log: s.opt.Log}), s.opt.StallTimeout)
	ln = listen.Wrap(ln, s.unsent.countUnsent)
	if s.opt.Certificate == nil {
		ln = listen.Wrap(ln, s.unfinished.countCalls)
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	go s.unsent.closeStalled(watching, s.opt.StallTimeout)
	ended, err := listen.Serve(ctx, ln, s.grpc.Serve, func() {
		s.health.Shutdown()
		time.Sleep(s.opt.Delay)
	})
	if ended {
		s.grpc.Stop()
	}
	s.endStreams()
	if ended {
		return err
	}
	return errors.Join(s.drainCalls(), err)
}

// drainCalls finishes the calls under way, or cuts them when it takes too long.
func (s *Server) drainCalls() error {
	drained := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(drained) }()
	select {
	case <-drained:
		return nil
	case <-time.After(s.opt.Drain):
	}
	go s.grpc.Stop()
	// Handlers hear of it by their contexts.
	const letGo = time.Second
	select {
	case <-drained:
	case <-time.After(letGo):
	}
	return fmt.Errorf("drain: calls cut after %s: raise --drain-timeout to wait longer", s.opt.Drain)
}

// lasting returns the methods that may last as long as their connections.
func lasting(services map[string]grpc.ServiceInfo) map[string]bool {
	streams := make(map[string]bool)
	for service, info := range services {
		if reflects("/" + service) {
			continue
		}
		for _, m := range info.Methods {
			if m.IsClientStream || m.IsServerStream {
				streams["/"+service+"/"+m.Name] = true
			}
		}
	}
	return streams
}
