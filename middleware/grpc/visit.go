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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/charge"
	"github.com/weirlimit/weir/internal/grpcstatus"
	"github.com/weirlimit/weir/internal/pauses"
)

// visit is one call that is decided or was let through. Not safe for concurrent
// use, but for what a stream sends beside what it receives.
type visit struct {
	charge charge.Charge
	m      *Middleware
	ctx    context.Context
	method string
	caller *identity.Caller
	header http.Header // the call's metadata
	// trailer adds to what the client gets at the end.
	trailer func(metadata.MD) error
	message weir.Request // what a message of a stream is charged

	// How the call ended.
	code  int
	bytes int64
	told  metadata.MD // what the handler tells in header and trailer
}

// enter identifies a call and decides: an error is what it is answered. Whoever
// gets a visit must leave it.
func (m *Middleware) enter(ctx context.Context, method string, req any, trailer func(metadata.MD) error) (*visit, error) {
	v := m.visits.Get().(*visit)
	v.m, v.ctx, v.method, v.trailer, v.code = m, ctx, method, trailer, weir.NoAnswer
	v.charge.Begin(m.opt.Limiter, m.faults, m.opt.Domain)
	if req == nil && m.opt.PerMessage { // the messages of a stream renew its lease
		v.charge.Req.Lease = rand.Text()
	}
	err := errors.New("a hook broke the call")
	defer func() {
		if err != nil {
			v.free()
		}
	}()
	if err = v.fill(req); err == nil {
		err = v.decide()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// fill makes the weir request of the call.
func (v *visit) fill(req any) error {
	m := v.m
	r := &v.charge.Req
	v.caller = m.opt.Identity.Acquire()
	v.caller.Set(v.facts())
	r.Facts = v.caller.Told()
	if m.plan != nil {
		if err := m.plan.Fill(r, v.caller); err != nil {
			if bad, ok := errors.AsType[*identity.Error](err); ok {
				return status.Error(codes.InvalidArgument, bad.Detail)
			}
			m.faults.Report("a call was not identified", err)
			return status.Error(codes.Internal, "the client could not be identified")
		}
	}
	if m.opt.Descriptors != nil {
		m.opt.Descriptors(v.ctx, v.method, r)
	}
	if m.opt.Cost != nil {
		if r.Cost = m.opt.Cost(v.ctx, v.method, req); r.Cost == 0 {
			r.Verb = weir.Peek
		}
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

// decide asks the limits, and waits where they say so. With an error, which is
// what the call is answered, nothing is charged or held.
func (v *visit) decide() error {
	v.charge.Req.Patience = v.m.patience
	d, err := v.m.opt.Limiter.Decide(v.ctx, &v.charge.Req)
	if err != nil {
		err = v.undecided(err)
		if err == nil {
			v.charge.Req.Reset() // what the ops say is neither decided nor charged
		}
		return err
	}
	if !d.Allowed() {
		return v.refuse(&v.charge.Req, d)
	}
	v.charge.Hold(v.ctx)
	if delay := v.charge.Req.Delay(); delay > 0 {
		if err := v.wait(delay); err != nil {
			v.charge.Cancel(v.ctx)
			return err
		}
	}
	v.tell(&v.charge.Req, d)
	v.charge.Pass()
	return nil
}

// undecided returns what a call is answered that got err instead of a decision,
// nil if it passes.
func (v *visit) undecided(err error) error {
	switch {
	case errors.Is(err, weir.ErrCost):
		// Not the store's fault: were it for the hook, whoever made us compute
		// such a cost would pass.
		return status.Error(codes.Internal, "the cost of the call is out of range")
	case v.ctx.Err() != nil:
		// A client that has gone takes the store's answer with it: nobody's fault.
		return status.FromContextError(v.ctx.Err()).Err()
	}
	v.m.faults.Report("no decision", err)
	if v.m.opt.OnError != nil {
		return v.m.opt.OnError(v.ctx, v.method, err)
	}
	st, _ := grpcstatus.Undecided(err)
	return st
}

// mayWait is [weir.Request.Patience]. A call that waits has a place among MaxWaiting
// until its wait is over.
func (m *Middleware) mayWait(ctx context.Context, delay time.Duration) (retryAfter time.Duration) {
	end, ends := ctx.Deadline()
	if m.waiting.Add(1) > int64(m.opt.MaxWaiting) || delay > m.opt.MaxDelay || ends && time.Until(end) < delay {
		m.waiting.Add(-1)
		return delay
	}
	return 0
}

// wait holds the call back.
func (v *visit) wait(delay time.Duration) error {
	defer v.m.waiting.Add(-1)
	if !pauses.Sleep(v.ctx, delay) {
		return status.FromContextError(v.ctx.Err()).Err()
	}
	return nil
}

// tell says in the trailer what the limits said.
func (v *visit) tell(r *weir.Request, d weir.Decision) {
	if d.Limit == nil {
		return
	}
	_, fields := v.m.answer.Fields(nil, nil, r.Ops(), d, decidedAt(r.Ops()))
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		md[strings.ToLower(f.Name)] = []string{string(f.Value)}
	}
	v.send(md)
}

// send adds to the trailer. It fails where there is no call, as in tests of
// handlers, and nobody to be told.
func (v *visit) send(md metadata.MD) { _ = v.trailer(md) }

// decidedAt returns the store's time of a decision, in microseconds since the
// Unix epoch; this node's, where no store was asked.
func decidedAt(ops []weir.Op) int64 {
	if len(ops) > 0 && ops[0].Now != 0 {
		return ops[0].Now
	}
	return time.Now().UnixMicro()
}

// receive charges a message of a stream.
func (v *visit) receive() error {
	r := &v.message
	r.Reset()
	r.Domain, r.Priority, r.Lease = v.charge.Req.Domain, v.charge.Req.Priority, v.charge.Req.Lease
	r.Facts, r.Patience = v.charge.Req.Facts, v.m.patience
	r.Descriptors = append(r.Descriptors, v.charge.Req.Descriptors...)
	d, err := v.m.opt.Limiter.Decide(v.ctx, r)
	if err != nil {
		return v.undecided(err)
	}
	if !d.Allowed() {
		return v.refuse(r, d)
	}
	delay := r.Delay()
	if delay == 0 {
		return nil
	}
	if err = v.wait(delay); err != nil {
		v.cancel(r)
	}
	return err
}

// cancel gives back what a message was charged.
func (v *visit) cancel(r *weir.Request) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(v.ctx), charge.Timeout)
	defer stop()
	if err := v.m.opt.Limiter.Cancel(ctx, r); err != nil {
		v.m.faults.Report("giving back failed", err)
	}
}

// watch makes a context in which the handler's header and trailer are noted.
func (v *visit) watch(ctx context.Context) context.Context {
	v.told = metadata.MD{}
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
	t.v.note(md)
	return t.ServerTransportStream.SetHeader(md)
}

// SendHeader implements grpc.ServerTransportStream.
func (t *watchedTransport) SendHeader(md metadata.MD) error {
	t.v.note(md)
	return t.ServerTransportStream.SendHeader(md)
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *watchedTransport) SetTrailer(md metadata.MD) error {
	t.v.note(md)
	return t.ServerTransportStream.SetTrailer(md)
}

func (v *visit) note(md metadata.MD) {
	for name, values := range md {
		v.told.Set(name, values...)
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
	if err == nil && s.v.told != nil {
		s.v.sent(m)
	}
	return err
}

// SetTrailer implements grpc.ServerStream.
func (s *watchedStream) SetTrailer(md metadata.MD) {
	if s.v.told != nil {
		s.v.note(md)
	}
	s.ServerStream.SetTrailer(md)
}

// sent notes a message of the answer.
func (v *visit) sent(m any) {
	if p, ok := m.(proto.Message); ok && v.told != nil {
		v.bytes += int64(proto.Size(p))
	}
}

// ended notes that the handler has returned.
func (v *visit) ended(err error) { v.code = statusOf(status.Code(err)) }

// leave tells observers how the call ended, settles the charge by it, and gives
// leases back.
func (v *visit) leave() {
	v.charge.Settle(v.ctx, weir.Result{Code: v.code, Bytes: v.bytes, Number: func(field string) (int64, bool) {
		values := v.told.Get(field)
		if len(values) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
		return n, err == nil
	}})
	v.charge.Release(v.ctx)
	v.free()
}

// free gives the visit back for reuse.
func (v *visit) free() {
	m := v.m
	if v.caller != nil {
		v.caller.Release()
	}
	clear(v.header)
	v.charge.End()
	v.message.Reset()
	v.m, v.ctx, v.caller, v.trailer, v.told, v.bytes = nil, nil, nil, nil, nil, 0
	m.visits.Put(v)
}
