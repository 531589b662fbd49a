package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/grpcstatus"
)

// ClientOptions configures a [Client].
type ClientOptions struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means "outgoing", which the rules must
	// have if they say which domains they have.
	Domain string
	// Key names whose quota a call spends: the value of the entry host, and what is
	// left alone when they ask for it. Nil means the target of the connection.
	Key func(cc *grpc.ClientConn, method string) string
	// Descriptors appends to w.Descriptors what a call is limited by, and may set
	// w.Priority. What it puts there must stay as it is until the call is over. Nil
	// means one descriptor of one entry: host, and the key.
	Descriptors func(ctx context.Context, method string, w *weir.Request)
	// Cost returns how many units a call costs, 0 to weir.MaxCost; 0 looks without
	// spending. req is nil for a stream. Nil means 1.
	Cost func(ctx context.Context, method string, req any) int64
	// MaxWait is the longest that a call waits until it may be sent; it never waits
	// beyond its deadline either. One that would have to is refused at once.
	// Negative means that none waits. Zero means ten seconds.
	MaxWait time.Duration
	// MaxWaiting is how many calls may wait at a time; those above it are refused.
	// Zero means 1024.
	MaxWaiting int
	// MaxPause is the longest that a key is left alone for what an answer asked.
	// Negative means that no answer is heeded. Zero means an hour.
	MaxPause time.Duration
	// OnError is asked when the store gave no decision: nil sends the call
	// uncounted, an error is what the caller gets. Nil means UNAVAILABLE.
	OnError func(ctx context.Context, method string, err error) error
	// Log is told of errors of the store, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// Client keeps outgoing calls within limits: a fleet's, on a shared store, within
// what a third party allows. Safe for concurrent use.
//
// A call that would exceed a limit waits, or is refused with a *[Limited], whose
// status is RESOURCE_EXHAUSTED. An answer of RESOURCE_EXHAUSTED or UNAVAILABLE
// with google.rpc.RetryInfo leaves its key alone until then.
//
// A place under a concurrency limit is held until the call is over: a stream is
// when its end has been received, sending or receiving fails, or its context ends.
type Client struct {
	opt  ClientOptions
	gate *admit.Gate
}

// NewClient returns a client. It returns an error when the limiter is missing or
// an option is out of range.
func NewClient(opt ClientOptions) (*Client, error) {
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, Domain: opt.Domain, Fallback: "outgoing", MaxDelay: opt.MaxWait, MaxWaiting: opt.MaxWaiting, MaxPause: opt.MaxPause, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	if opt.Key == nil {
		opt.Key = func(cc *grpc.ClientConn, _ string) string { return cc.Target() }
	}
	return &Client{opt: opt, gate: gate}, nil
}

// Limited is the error of a call that was not sent, for a limit's sake.
type Limited struct {
	// Key is whose quota it would have spent, see ClientOptions.Key.
	Key string
	// Limit names the limit that refused. Empty when Key asked to be left alone.
	Limit string
	// RetryAfter is the least wait after which the same call may be sent, or
	// weir.Never.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Limited) Error() string {
	what := fmt.Sprintf("grpclimit: %s asked to be left alone", e.Key)
	if e.Limit != "" {
		what = fmt.Sprintf("grpclimit: limit %q of calls to %s is exhausted", e.Limit, e.Key)
	}
	if e.RetryAfter == weir.Never {
		return what + ": the call can never be sent"
	}
	return fmt.Sprintf("%s: retry after %s", what, e.RetryAfter)
}

// GRPCStatus serves status.FromError.
func (e *Limited) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, e.Error())
}

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	held, err := c.admitCall(ctx, c.opt.Key(cc, method), method, req)
	if err != nil {
		return err
	}
	code := weir.NoAnswer
	defer func() { held.Finish(ctx, weir.Result{Code: code}) }()
	err = invoke(ctx, method, req, reply, cc, opts...)
	code = codeOf(ctx, err)
	c.pauseIfAsked(held.Key, err)
	return err
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	held, err := c.admitCall(ctx, c.opt.Key(cc, method), method, nil)
	if err != nil {
		return nil, err
	}
	s := &limitedStream{c: c, held: held, ctx: ctx, single: !desc.ServerStreams}
	if s.ClientStream, err = open(ctx, desc, cc, method, opts...); err != nil {
		s.finishCharge(err)
		return nil, err
	}
	// A caller may let go of a stream by its context alone.
	s.stop = context.AfterFunc(ctx, func() { s.finishCharge(ctx.Err()) })
	return s, nil
}

// admitCall returns when the call may be sent, with what is to be finished when it is
// over, or why it may not.
func (c *Client) admitCall(ctx context.Context, key, method string, req any) (*admit.Outgoing, error) {
	held := &admit.Outgoing{Key: key}
	held.Begin(c.gate)
	held.Req.NewLease = true
	if c.opt.Descriptors != nil {
		c.opt.Descriptors(ctx, method, &held.Req)
	} else {
		held.AddHostDescriptor()
	}
	if c.opt.Cost != nil {
		admit.SetCost(&held.Req, c.opt.Cost(ctx, method, req))
	}
	err := held.AwaitTurn(ctx, func(limit string, wait time.Duration) error {
		return &Limited{Key: key, Limit: limit, RetryAfter: wait}
	})
	if none, ok := errors.AsType[*admit.Undecided](err); ok {
		err = c.undecided(ctx, method, none)
	}
	switch {
	case err == nil:
		return held, nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = status.FromContextError(err).Err()
	}
	held.End()
	return nil, err
}

// undecided returns what a caller gets when the store gave no decision, nil if
// the call is sent all the same.
func (c *Client) undecided(ctx context.Context, method string, why *admit.Undecided) error {
	switch why.Reason {
	case admit.CostOutOfRange:
		return status.Error(codes.InvalidArgument, "grpclimit: "+why.Error())
	case admit.ClientGone:
		return ctx.Err()
	}
	c.gate.Faults.Report("request undecided", why.Err)
	if c.opt.OnError != nil {
		return c.opt.OnError(ctx, method, why.Err)
	}
	return status.Error(codes.Unavailable, "grpclimit: no decision: "+why.Error())
}

// codeOf returns the status that a call is settled by: what a server that could
// not be reached would have answered is no answer.
func codeOf(ctx context.Context, err error) int {
	if err == nil {
		return statusOf(codes.OK)
	}
	if code := status.Code(err); code != codes.Unavailable && ctx.Err() == nil {
		return statusOf(code)
	}
	return weir.NoAnswer
}

// pauseIfAsked leaves key alone if err asks for it.
func (c *Client) pauseIfAsked(key string, err error) {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return
	}
	if wait := grpcstatus.RetryDelay(st); wait > 0 {
		c.gate.PauseKey(key, wait)
	}
}

// limitedStream is a stream that holds what it was granted until it is over.
type limitedStream struct {
	grpc.ClientStream
	c      *Client
	ctx    context.Context
	single bool // one message is the whole answer
	once   sync.Once
	held   *admit.Outgoing
	stop   func() bool
}

// finishCharge ends the charge. err is nil or io.EOF where the stream ended well.
func (s *limitedStream) finishCharge(err error) {
	s.once.Do(func() {
		if err == io.EOF {
			err = nil
		}
		s.held.Finish(context.WithoutCancel(s.ctx), weir.Result{Code: codeOf(s.ctx, err)})
		s.c.pauseIfAsked(s.held.Key, err)
	})
}

// stopAndFinish is finish for who is not called by the context's end.
func (s *limitedStream) stopAndFinish(err error) {
	if s.stop != nil {
		s.stop()
	}
	s.finishCharge(err)
}

// RecvMsg implements grpc.ClientStream.
func (s *limitedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.stopAndFinish(err)
	}
	return err
}

// Header implements grpc.ClientStream.
func (s *limitedStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		s.stopAndFinish(err)
	}
	return md, err
}
