//go:build !race

// The race detector allocates, and empties pools.

package rls

import (
	"context"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A decision allocates nothing once there is memory for it; what a call
// allocates beside it is grpc's.
func TestAnswerAllocatesNothing(t *testing.T) {
	s := newService(t)
	data, err := proto.Marshal(&rlspb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "a", Value: "1"}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "b", Value: "1"}, {Key: "c", Value: "3"}},
			Limit: &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 2}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var in mem.Buffer = mem.SliceBuffer(data)
	refused := 0
	if n := testing.AllocsPerRun(200, func() { // the last ones are refused
		c := s.calls.Get().(*call)
		if err := c.Decode(in); err != nil {
			t.Fatal(err)
		}
		if err := c.answerQuestion(context.Background()); err != nil {
			t.Fatal(err)
		}
		if c.Encoded()[1] == codeOverLimit {
			refused++
		}
		c.Sent()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if refused == 0 {
		t.Error("none was refused")
	}
}
