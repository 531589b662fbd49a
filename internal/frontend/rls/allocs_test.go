//go:build !race

// The race detector allocates, and empties pools.

package rls_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
)

// nothing is a message that is not read, and an answer that is always the same.
type nothing struct{ answer []byte }

// Decode implements grpcserver.Message.
func (*nothing) Decode(data mem.Buffer) error { data.Free(); return nil }

// Encoded implements grpcserver.Message.
func (n *nothing) Encoded() []byte { return n.answer }

// Sent implements grpcserver.Message.
func (*nothing) Sent() {}

// mallocs returns the allocations of a call to what register serves, client and
// server together.
func mallocs(t *testing.T, register func(grpc.ServiceRegistrar), q *rlspb.RateLimitRequest) float64 {
	t.Helper()
	conn, ctx := grpctest.Connect(t, grpcserver.Options{}, register), t.Context()
	// The answer is not decoded, so that what a client makes of it does not count.
	one := func() {
		call, stop := context.WithTimeout(ctx, time.Minute) // as Envoy sends one
		defer stop()
		if err := conn.Invoke(call, rlspb.RateLimitService_ShouldRateLimit_FullMethodName, q, &nothing{}, grpc.ForceCodecV2(blind{})); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		one()
	}
	const calls = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		one()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls
}

// blind is a client's codec that does not decode.
type blind struct{}

func (blind) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (blind) Marshal(v any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Unmarshal implements encoding.CodecV2.
func (blind) Unmarshal(mem.BufferSlice, any) error { return nil }

// A call allocates what grpc does for a handler that does nothing: the decision,
// the question and the answer add nothing.
func TestAllocationsOfACall(t *testing.T) {
	q := &rlspb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "a", Value: "1"}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "b", Value: "1"}, {Key: "c", Value: "2"}}},
	}}
	l, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none, err := answer.New(answer.Options{Headers: []string{answer.None}})
	if err != nil {
		t.Fatal(err)
	}
	floor := mallocs(t, func(r grpc.ServiceRegistrar) {
		r.RegisterService(&grpc.ServiceDesc{ServiceName: rls.Name, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "ShouldRateLimit",
			Handler: func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				n := &nothing{answer: make([]byte, 300)}
				return n, read(n)
			}}}}, nil)
	}, q)
	for _, w := range []*answer.Writer{nil, none} {
		s, err := rls.New(rls.Options{Limiter: l, Answer: w})
		if err != nil {
			t.Fatal(err)
		}
		got := mallocs(t, s.Register, q)
		t.Logf("%.1f allocations a call, client and server; %.1f of a handler that does nothing", got, floor)
		if got > floor+3 {
			t.Errorf("%.1f allocations a call, %.1f of a handler that does nothing", got, floor)
		}
	}
}
