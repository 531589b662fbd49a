package xds

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// response holds one configuration whose one descriptor holds another, and
// that the fields given.
func response(t testing.TB, fields []byte) *discoveryv3.DiscoveryResponse {
	t.Helper()
	inner := append([]byte(nil), fields...)
	inner = protowire.AppendTag(inner, 1, protowire.BytesType)
	inner = protowire.AppendString(inner, "inner")
	outer := protowire.AppendTag(nil, 1, protowire.BytesType)
	outer = protowire.AppendString(outer, "outer")
	outer = protowire.AppendTag(outer, 4, protowire.BytesType)
	outer = protowire.AppendBytes(outer, inner)
	conf := protowire.AppendTag(nil, 2, protowire.BytesType)
	conf = protowire.AppendString(conf, "shop")
	conf = protowire.AppendTag(conf, 3, protowire.BytesType)
	conf = protowire.AppendBytes(conf, outer)
	return &discoveryv3.DiscoveryResponse{
		TypeUrl: TypeURL, Resources: []*anypb.Any{{TypeUrl: TypeURL, Value: conf}},
	}
}

func varint(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func field(num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), v)
}

func message(t testing.TB, fields map[string]any) []byte {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFieldsThatTheTypesDoNotName(t *testing.T) {
	f := func(fields []byte, quota bool, want map[string]any) {
		t.Helper()
		configs, err := decode(response(t, fields))
		if err != nil {
			t.Error(err)
			return
		}
		outer := configs[0].GetDescriptors()[0]
		inner := outer.GetDescriptors()[0]
		if outer.GetKey() != "outer" || inner.GetKey() != "inner" {
			t.Errorf("keys %s and %s", outer.GetKey(), inner.GetKey())
		}
		if got := QuotaMode(inner); got != quota {
			t.Errorf("quota mode %v, want %v", got, quota)
		}
		if got, err := Metadata(outer); QuotaMode(outer) || got != nil || err != nil {
			t.Errorf("the outer descriptor has %v %v", got, err)
		}
		got, err := Metadata(inner)
		if err != nil || (got == nil) != (want == nil) {
			t.Fatalf("metadata %v %v, want %v", got, err, want)
		}
		if got == nil {
			return
		}
		wanted, err := structpb.NewStruct(want)
		if err != nil || !proto.Equal(got, wanted) {
			t.Errorf("metadata %v, want %v", got, wanted)
		}
	}
	f(nil, false, nil)
	f(varint(7, 1), true, nil)
	f(varint(7, 0), false, nil)
	f(append(varint(7, 1), varint(7, 0)...), false, nil) // the last counts
	f(field(7, []byte("x")), false, nil)                 // of another type: unknown to protobuf too
	f(field(8, nil), false, map[string]any{})
	f(append(varint(9, 3), field(8, message(t, map[string]any{"a": "b"}))...), false, map[string]any{"a": "b"})
	// A message that is there twice is merged.
	twice := append(field(8, message(t, map[string]any{"a": "b", "c": 1.0})), field(8, message(t, map[string]any{"c": 2.0}))...)
	f(append(twice, varint(7, 1)...), true, map[string]any{"a": "b", "c": 2.0})
}

func TestResponsesThatAreRefused(t *testing.T) {
	f := func(res *discoveryv3.DiscoveryResponse) {
		t.Helper()
		if got, err := decode(res); err == nil {
			t.Errorf("%v is taken for %v", res, got)
		}
	}
	f(response(t, field(8, []byte("not a struct"))))
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: TypeURL, Value: []byte{0xff}}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{nil}})
	f(&discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"})
	if got, err := decode(&discoveryv3.DiscoveryResponse{TypeUrl: TypeURL}); err != nil || len(got) != 0 {
		t.Errorf("an empty set: %v %v", got, err)
	}
}

func TestUnitName(t *testing.T) {
	for u, want := range map[rlsconfv3.RateLimitUnit]string{
		0: "UNKNOWN", 1: "SECOND", 2: "MINUTE", 3: "HOUR", 4: "DAY", 5: "MONTH", 6: "YEAR", 7: "WEEK", 8: "8", -1: "-1",
	} {
		if got := UnitName(u); got != want {
			t.Errorf("unit %d is %s, want %s", u, got, want)
		}
		if name, ok := rlsconfv3.RateLimitUnit_name[int32(u)]; ok && name != want {
			t.Errorf("unit %d is %s there, %s here", u, name, want)
		}
	}
}

// FuzzResponse decodes responses of any bytes, and reads of each descriptor
// what can be read.
func FuzzResponse(f *testing.F) {
	add := func(res *discoveryv3.DiscoveryResponse) {
		b, err := proto.Marshal(res)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add(response(f, nil))
	add(response(f, append(varint(7, 1), field(8, message(f, map[string]any{"a": []any{"b", 1.5, nil}}))...)))
	add(response(f, field(8, []byte{0xff})))
	add(&discoveryv3.DiscoveryResponse{TypeUrl: TypeURL, VersionInfo: "1", Nonce: "n"})
	f.Fuzz(func(t *testing.T, b []byte) {
		res := new(discoveryv3.DiscoveryResponse)
		if proto.Unmarshal(b, res) != nil {
			return // gRPC ends the stream
		}
		configs, err := decode(res)
		if err != nil {
			if cut(err.Error()) == "" {
				t.Fatal("a refusal without a reason")
			}
			return
		}
		var walk func(ds []*rlsconfv3.RateLimitDescriptor)
		walk = func(ds []*rlsconfv3.RateLimitDescriptor) {
			for _, d := range ds {
				if _, err := Metadata(d); err != nil {
					t.Fatalf("a set that was taken has metadata that cannot be decoded: %v", err)
				}
				QuotaMode(d)
				_ = UnitName(d.GetRateLimit().GetUnit())
				walk(d.GetDescriptors())
			}
		}
		for _, c := range configs {
			walk(c.GetDescriptors())
		}
	})
}
