package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/admit"
)

// Options configures a [Middleware].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means "api", which the rules must
	// have if they say which domains they have.
	Domain string
	// Identity tells who sent a call: the peer's address and metadata as HTTP has
	// address and header. Nil means identity.New with its defaults: no metadata is
	// believed.
	Identity *identity.Resolver
	// Plan makes the descriptors that a call is limited by. Its method is POST, its
	// path the full method, /package.Service/Method. Nil means what the Limiter's
	// rules are matched by and Identity can know, see identity.Resolver.RulePlan, and
	// in any case the client's address, as remote_address; with Descriptors, nothing.
	Plan *identity.Plan
	// Descriptors appends descriptors of your own to w.Descriptors, after those of
	// Plan; it may set w.Priority too. What it puts there must stay as it is until
	// the call is over. Nil means none.
	Descriptors func(ctx context.Context, method string, w *weir.Request)
	// Cost returns how many units a call costs, 0 to weir.MaxCost; 0 looks without
	// spending. req is nil for a stream. A call whose cost is out of range is
	// answered INTERNAL. Nil means 1.
	Cost func(ctx context.Context, method string, req any) int64
	// PerMessage charges streams for every message that they receive too, a unit
	// each; a refused message ends the stream. Zero means that a stream is charged
	// when it opens.
	PerMessage bool
	// Skip reports whether calls of a method pass without being asked about. Nil
	// means those of grpc.health.v1 and of reflection.
	Skip func(method string) bool
	// Answer writes the fields that stand in the trailer. Nil means answer.New with
	// its defaults.
	Answer *answer.Writer
	// OnError is asked when the store gave no decision. Nil lets the call pass
	// uncounted, an error is what it is answered. err is not meant for clients. Nil
	// means UNAVAILABLE.
	OnError func(ctx context.Context, method string, err error) error
	// MaxDelay is the longest that a call is held back for a limit that delays; one
	// that would have to wait longer, or beyond its deadline, is refused. Zero means
	// ten seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many calls may be held back at a time; those above it are
	// refused. Zero means 1024.
	MaxWaiting int
	// Log is told of errors of the store, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// Middleware limits calls to a server. Safe for concurrent use.
type Middleware struct {
	opt    Options
	gate   *admit.Gate
	visits sync.Pool
}

// New returns a middleware. It returns an error when the limiter is missing or
// an option is out of range.
func New(opt Options) (*Middleware, error) {
	switch {
	case opt.MaxDelay < 0:
		return nil, errors.New("grpclimit: max delay must not be negative")
	case opt.Plan != nil && opt.Identity == nil:
		return nil, errors.New("grpclimit: a plan without its resolver: set Options.Identity to the one that made Options.Plan")
	}
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, Domain: opt.Domain, Fallback: "api", MaxDelay: opt.MaxDelay, WithinDeadline: true, MaxWaiting: opt.MaxWaiting, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	if opt.Skip == nil {
		opt.Skip = housekeeping
	}
	if opt.Answer == nil {
		if opt.Answer, err = answer.New(answer.Options{}); err != nil {
			return nil, err
		}
	}
	if opt.Identity == nil {
		if opt.Identity, err = identity.New(identity.Options{Log: opt.Log}); err != nil {
			return nil, err
		}
	}
	if opt.Plan == nil && opt.Descriptors == nil {
		opt.Plan = opt.Identity.RulePlan(opt.Limiter.Rules(), 0)
	}
	m := &Middleware{opt: opt, gate: gate}
	m.visits.New = func() any { return new(visit) }
	return m, nil
}

// housekeeping reports whether a method is asked by load balancers and tools.
func housekeeping(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// Unary is a grpc.UnaryServerInterceptor.
func (m *Middleware) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if m.opt.Skip(info.FullMethod) {
		return next(ctx, req)
	}
	trailer := func(md metadata.MD) error { return grpc.SetTrailer(ctx, md) }
	v, err := m.enterCall(ctx, info.FullMethod, req, trailer)
	if err != nil {
		return nil, err
	}
	defer v.leaveCall()
	if v.life.Req.NeedsResult() {
		ctx = v.watchMetadata(ctx)
	}
	res, err := next(ctx, req)
	v.noteReturned(err)
	v.noteSent(res)
	return res, err
}

// Stream is a grpc.StreamServerInterceptor.
func (m *Middleware) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if m.opt.Skip(info.FullMethod) {
		return next(srv, stream)
	}
	ctx := stream.Context()
	trailer := func(md metadata.MD) error { stream.SetTrailer(md); return nil }
	v, err := m.enterCall(ctx, info.FullMethod, nil, trailer)
	if err != nil {
		return err
	}
	defer v.leaveCall()
	unsettled := v.life.Req.NeedsResult()
	if unsettled || m.opt.PerMessage {
		if unsettled {
			ctx = v.watchMetadata(ctx)
		}
		stream = &watchedStream{ServerStream: stream, ctx: ctx, v: v}
	}
	err = next(srv, stream)
	v.noteReturned(err)
	return err
}
