package grpclimit

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/grpcstatus"
)

// visit is one call that is decided or was let through. Not safe for concurrent
// use, but for what a stream sends beside what it receives.
type visit struct {
	life   admit.Admission
	m      *Middleware
	ctx    context.Context
	method string
	caller *identity.Caller
	header http.Header // the call's metadata
	// trailer adds to what the client gets at the end.
	trailer func(metadata.MD) error
	message admit.Admission // what a message of a stream is charged

	// How the call ended.
	code    int
	bytes   int64
	handler metadata.MD // what the handler writes into header and trailer
}

// enterCall identifies a call and decides: an error is what it is answered. Whoever
// gets a visit must leave it.
func (m *Middleware) enterCall(ctx context.Context, method string, req any, trailer func(metadata.MD) error) (*visit, error) {
	v := m.visits.Get().(*visit)
	v.m, v.ctx, v.method, v.trailer, v.code = m, ctx, method, trailer, weir.NoAnswer
	v.life.Begin(m.gate)
	v.life.Req.NewLease = true
	if req == nil && m.opt.PerMessage { // the messages of a stream renew its lease
		v.life.Req.Lease = rand.Text()
	}
	err := errors.New("a hook broke the call")
	defer func() {
		if err != nil {
			v.recycle()
		}
	}()
	if err = v.fillRequest(req); err == nil {
		err = v.decideCall()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// fillRequest makes the weir request of the call.
func (v *visit) fillRequest(req any) error {
	m := v.m
	r := &v.life.Req
	v.caller = m.opt.Identity.Acquire()
	v.caller.Set(v.facts())
	r.Facts = v.caller.Facts()
	if m.opt.Plan != nil {
		if err := m.opt.Plan.Fill(r, v.caller); err != nil {
			if bad, ok := errors.AsType[*identity.Error](err); ok {
				return status.Error(codes.InvalidArgument, bad.Detail)
			}
			m.gate.Faults.Report("a call was not identified", err)
			return status.Error(codes.Internal, "the client could not be identified")
		}
	}
	if m.opt.Descriptors != nil {
		m.opt.Descriptors(v.ctx, v.method, r)
	}
	if m.opt.Cost != nil {
		admit.SetCost(r, m.opt.Cost(v.ctx, v.method, req))
	}
	return nil
}

// facts are the call as HTTP has it.
func (v *visit) facts() identity.Facts {
	f := identity.Facts{Method: http.MethodPost, Path: v.method}
	if p, ok := peer.FromContext(v.ctx); ok && p.Addr != nil && p.Addr.Network() != "unix" {
		if ap, err := netip.ParseAddrPort(p.Addr.String()); err == nil {
			f.Peer = ap.Addr()
		}
	}
	md, _ := metadata.FromIncomingContext(v.ctx)
	if v.header == nil {
		v.header = make(http.Header, len(md))
	}
	for name, values := range md {
		switch {
		case name == ":authority" && len(values) > 0:
			f.Host = values[0]
		case !strings.HasPrefix(name, ":"):
			v.header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	f.Header = v.header
	return f
}

// decideCall asks the limits, and waits where they say so. With an error, which is
// what the call is answered, nothing is charged or held.
func (v *visit) decideCall() error {
	d, err := v.askLimits(&v.life)
	if err == nil && d.Allowed() {
		v.writeTrailers(&v.life.Req, d)
		v.life.NotePassed()
	}
	return err
}

// askLimits decides the call or a message of it, and waits where the limits say so. The
// decision is the zero Decision where the call passes undecided.
func (v *visit) askLimits(a *admit.Admission) (weir.Decision, error) {
	d, err := a.Decide(v.ctx)
	switch {
	case err != nil:
		return d, v.undecided(a, err)
	case !d.Allowed():
		return d, v.refusalStatus(&a.Req, d)
	case a.AwaitDelay(v.ctx) != nil:
		return d, status.FromContextError(v.ctx.Err()).Err()
	}
	return d, nil
}

// undecided returns what a call is answered that got err instead of a decision,
// nil if it passes.
func (v *visit) undecided(a *admit.Admission, err error) error {
	switch a.Undecided(v.ctx, err) {
	case admit.CostOutOfRange:
		return status.Error(codes.Internal, "the cost of the call is out of range")
	case admit.ClientGone:
		return status.FromContextError(v.ctx.Err()).Err()
	}
	if v.m.opt.OnError != nil {
		return v.m.opt.OnError(v.ctx, v.method, err)
	}
	st, _ := grpcstatus.Undecided(err)
	return st
}

// receive charges a message of a stream.
func (v *visit) receive() error {
	a := &v.message
	a.End()
	a.Begin(v.m.gate)
	r := &a.Req
	r.Domain, r.Priority, r.Lease = v.life.Req.Domain, v.life.Req.Priority, v.life.Req.Lease
	r.Facts = v.life.Req.Facts
	r.Descriptors = append(r.Descriptors, v.life.Req.Descriptors...)
	_, err := v.askLimits(a)
	return err
}

// watchMetadata makes a context in which the handler's header and trailer are noted.
func (v *visit) watchMetadata(ctx context.Context) context.Context {
	v.handler = metadata.MD{}
	if s := grpc.ServerTransportStreamFromContext(ctx); s != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, &watchedTransport{s, v})
	}
	return ctx
}

// watchedTransport notes what a handler tells in header and trailer.
type watchedTransport struct {
	grpc.ServerTransportStream
	v *visit
}

// SetHeader implements grpc.ServerTransportStream.
func (t *watchedTransport) SetHeader(md metadata.MD) error {
	t.v.noteMetadata(md)
	return t.ServerTransportStream.SetHeader(md)
}

// SendHeader implements grpc.ServerTransportStream.
func (t *watchedTransport) SendHeader(md metadata.MD) error {
	t.v.noteMetadata(md)
	return t.ServerTransportStream.SendHeader(md)
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *watchedTransport) SetTrailer(md metadata.MD) error {
	t.v.noteMetadata(md)
	return t.ServerTransportStream.SetTrailer(md)
}

func (v *visit) noteMetadata(md metadata.MD) {
	for name, values := range md {
		v.handler.Set(name, values...)
	}
}

// watchedStream is a stream whose messages are charged or measured.
type watchedStream struct {
	grpc.ServerStream
	ctx context.Context
	v   *visit
}

// Context implements grpc.ServerStream.
func (s *watchedStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *watchedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.v.m.opt.PerMessage {
		return err
	}
	return s.v.receive()
}

// SendMsg implements grpc.ServerStream.
func (s *watchedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil && s.v.handler != nil {
		s.v.noteSent(m)
	}
	return err
}

// SetTrailer implements grpc.ServerStream.
func (s *watchedStream) SetTrailer(md metadata.MD) {
	if s.v.handler != nil {
		s.v.noteMetadata(md)
	}
	s.ServerStream.SetTrailer(md)
}

// noteSent notes a message of the answer.
func (v *visit) noteSent(m any) {
	if p, ok := m.(proto.Message); ok && v.handler != nil {
		v.bytes += int64(proto.Size(p))
	}
}

// noteReturned notes that the handler has returned. Whatever it says, a client that has hung up,
// or whose deadline has passed, does not hear it.
func (v *visit) noteReturned(err error) {
	if v.code = statusOf(status.Code(err)); v.ctx.Err() != nil {
		v.code = weir.ClientGone
	}
}

// leaveCall tells observers how the call ended, settles the charge by it, and gives
// leases back.
func (v *visit) leaveCall() {
	v.life.Adjust(v.ctx, weir.Result{Code: v.code, Bytes: v.bytes, Number: func(field string) (int64, bool) {
		values := v.handler.Get(field)
		if len(values) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
		return n, err == nil
	}})
	v.life.Release(v.ctx)
	v.recycle()
}

// recycle gives the visit back for reuse.
func (v *visit) recycle() {
	m := v.m
	if v.caller != nil {
		v.caller.Release()
	}
	clear(v.header)
	v.life.End()
	v.message.End()
	v.m, v.ctx, v.caller, v.trailer, v.handler, v.bytes = nil, nil, nil, nil, nil, 0
	m.visits.Put(v)
}
