package grpcapi

import (
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/testing/clocked"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

func newService(t testing.TB) *Service {
	t.Helper()
	l, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Limiter: l})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same compares what was read with what generated code reads.
func (b *batch) same(t *testing.T, want *weirpb.CheckBatchRequest) {
	t.Helper()
	if b.listed != len(want.Checks) || b.tabular != (want.Table != nil) {
		t.Fatalf("read %d checks, table %v, of %s", b.listed, b.tabular, want)
	}
	w := want.GetTable()
	if h := &b.table; h.domain != w.GetDomain() || h.hasPriority != (w != nil && w.Priority != nil) || h.priority != w.GetPriority() ||
		h.peek != w.GetPeek() || !slices.Equal(h.keys, w.GetKeys()) || !slices.Equal(h.values, w.GetValues()) || !slices.Equal(h.costs, w.GetCosts()) {
		t.Fatalf("read %+v of %s", b.table, w)
	}
}

// FuzzCheckBatch: raw bytes are read as generated code reads them, and the answer
// to whatever they say has a row for each check.
func FuzzCheckBatch(f *testing.F) {
	for _, q := range []*weirpb.CheckBatchRequest{
		{Checks: []*weirpb.CheckRequest{
			{Domain: "d", Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "k", Value: "v"}}, Cost: proto.Int64(3), Peek: true}}},
			{Cost: proto.Int64(0), Priority: proto.Uint32(7), Peek: true, Lease: "l"}}},
		{Table: &weirpb.CheckTable{Domain: "d", Keys: []string{"a", "b"}, Values: []string{"1", "2", "3", "4"}, Costs: []int64{1, -1}, Priority: proto.Uint32(1)}},
	} {
		data, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\x12\x06\x12\x01a\x1a\x01x\x12\x07\x1a\x01y\x20\x05\x28\x01")) // a table in two parts
	f.Add([]byte("\x12\x03\x22\x01\x80"))
	s := newService(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := new(weirpb.CheckBatchRequest)
		bad := proto.Unmarshal(data, want)
		b := s.batches.Get().(*batch)
		defer func() { b.Sent() }()
		err := b.Decode(mem.SliceBuffer(data))
		if tooMany := b.listed > checks.MaxRequests; !tooMany && (err != nil) != (bad != nil) {
			t.Fatalf("read with %v, generated code with %v", err, bad)
		}
		if err != nil || bad != nil {
			return
		}
		b.same(t, want)
		if err := b.answerChecks(t.Context()); err != nil {
			return
		}
		got := new(weirpb.CheckBatchResponse)
		if err := proto.Unmarshal(b.Encoded(), got); err != nil {
			t.Fatalf("the answer %x: %v", b.Encoded(), err)
		}
		rows := len(want.Checks)
		if want.Table != nil {
			rows = len(want.Table.Values) / len(want.Table.Keys)
		}
		if len(got.Allowed) != rows || len(got.Remaining) != rows || len(got.ResetAfterUs) != rows || len(got.Limit) != rows ||
			len(got.RetryAfterUs)%rows != 0 || len(got.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("answered %s to %s", got, want)
		}
		for _, n := range got.Limit {
			if int(n) > len(got.Limits) {
				t.Fatalf("answered %s to %s", got, want)
			}
		}
	})
}
