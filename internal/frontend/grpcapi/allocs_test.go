//go:build !race

// The race detector allocates, and empties pools.

package grpcapi

import (
	"context"
	"fmt"
	"testing"

	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A batch allocates nothing once there is memory for it, whatever its length.
func TestBatchAllocatesNothing(t *testing.T) {
	s := newService(t)
	q := &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Keys: []string{"client_id"}}}
	for i := range 200 {
		q.Table.Values = append(q.Table.Values, fmt.Sprint(i))
	}
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var in mem.Buffer = mem.SliceBuffer(data)
	b := s.batches.Get().(*batch)
	if n := testing.AllocsPerRun(150, func() { // the last ones are refused
		if err := b.Decode(in); err != nil {
			t.Fatal(err)
		}
		if err := b.answerChecks(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.Sent()
		b = s.batches.Get().(*batch)
	}); n > 1 { // a pool is emptied at times
		t.Errorf("%v allocations", n)
	}
}
