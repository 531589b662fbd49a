package rls

import (
	"bytes"
	"context"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/wire"
)

// newService limits every key to a hundred a minute.
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
func same(t *testing.T, c *call, want *rlspb.RateLimitRequest) {
	t.Helper()
	if c.domain != want.Domain || c.hits != want.HitsAddend || len(c.descriptors) != len(want.Descriptors) {
		t.Fatalf("read %q, %d hits, %d descriptors of %s", c.domain, c.hits, len(c.descriptors), want)
	}
	for i, d := range c.descriptors {
		w := want.Descriptors[i]
		entries := c.entries[d.from:d.to]
		if len(entries) != len(w.Entries) || d.limited != (w.Limit != nil) || d.hasHits != (w.HitsAddend != nil) ||
			d.hits != w.GetHitsAddend().GetValue() || d.negative != w.IsNegativeHits {
			t.Fatalf("descriptor %d: read %+v of %s", i, d, w)
		}
		for j, e := range entries {
			if e.Key != w.Entries[j].Key || asEnvoyHas(e.Value) != w.Entries[j].Value {
				t.Fatalf("descriptor %d, entry %d: read %+v of %s", i, j, e, w)
			}
		}
		o := w.GetLimit()
		if d.override.count != o.GetRequestsPerUnit() || int32(d.override.unit) != int32(o.GetUnit()) ||
			d.override.hasTimes != (o.GetUnitMultiplier() != nil) || d.override.times != o.GetUnitMultiplier().GetValue() {
			t.Fatalf("descriptor %d: read the limit %+v of %s", i, d.override, o)
		}
	}
}

// asEnvoyHas returns s as Envoy writes it where it writes UTF-8.
func asEnvoyHas(s string) string {
	b := []byte("\x0a\x00")
	b = append(protowire.AppendVarint(b[:1], uint64(len(s))), s...)
	wire.Repair(b, new(ratelimitpb.RateLimitDescriptor_Entry).ProtoReflect().Descriptor(), 1)
	return string(b[len(b)-len(s):])
}

// FuzzShouldRateLimit: raw bytes are read as generated code reads them, but for values
// that are no UTF-8, which it does not read; and the
// answer to whatever they say is whole: a status for each descriptor, in their
// number, none of them unknown.
func FuzzShouldRateLimit(f *testing.F) {
	full, err := proto.Marshal(&rlspb.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "a", Value: "1"}, {Key: EntryLease, Value: "x"}, {Key: EntryCharge}}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "b"}}, IsNegativeHits: true, HitsAddend: wrapperspb.UInt64(1 << 63),
			Limit: &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 7, UnitMultiplier: wrapperspb.UInt32(2)}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte{})
	// A limit in two parts, which are merged; a group; a field of another type.
	f.Add([]byte("\x0a\x01d\x12\x0e\x0a\x03\x0a\x01k\x12\x02\x08\x05\x12\x05\x10\x02\x1a\x01\x08"))
	f.Add([]byte("\x0a\x01d\x12\x11\x0a\x03\x0a\x01k\x12\x02\x08\x05\x12\x06\x10\x02\x1a\x02\x08\x03"))
	f.Add([]byte("\x0a\x01d\x12\x05\x0a\x03\x0a\x01k\x4b\x08\x01\x4c\x18\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x0a\x02\xff\xfe\x08\x01"))
	s := newService(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := new(rlspb.RateLimitRequest)
		whole := proto.Unmarshal(data, want)
		repaired := bytes.Clone(data)
		wire.Repair(repaired, want.ProtoReflect().Descriptor(), 8)
		bad := proto.Unmarshal(repaired, want)
		c := s.calls.Get().(*call)
		defer func() { c.Sent() }()
		if err := c.Decode(mem.SliceBuffer(data)); err == wire.ErrUTF8 && whole != nil {
			return // of the domain, a key, or where nothing is read
		} else if (err != nil) != (bad != nil) {
			t.Fatalf("read with %v, generated code with %v", err, bad)
		} else if err != nil {
			return
		}
		same(t, c, want)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.answerQuestion(ctx); err != nil {
			return
		}
		got := new(rlspb.RateLimitResponse)
		if err := proto.Unmarshal(c.Encoded(), got); err != nil {
			t.Fatalf("the answer %x: %v", c.Encoded(), err)
		}
		if len(got.Statuses) != len(want.Descriptors) || got.OverallCode == rlspb.RateLimitResponse_UNKNOWN || len(got.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("answered %s to %s", got, want)
		}
		for _, s := range got.Statuses {
			if s.Code == rlspb.RateLimitResponse_UNKNOWN || s.CurrentLimit.GetName() == "" && s.CurrentLimit != nil {
				t.Fatalf("answered %s to %s", got, want)
			}
		}
	})
}
