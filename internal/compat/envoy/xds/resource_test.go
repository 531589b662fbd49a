package xds

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
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
	f := func(fields []byte) {
		t.Helper()
		configs, err := decodeResources(response(t, fields))
		if err != nil {
			t.Error(err)
			return
		}
		if inner := configs[0].GetDescriptors()[0].GetDescriptors()[0]; inner.GetKey() != "inner" {
			t.Errorf("the descriptor with %x has the key %s", fields, inner.GetKey())
		}
	}
	f(nil)
	f(field(7, []byte("x"))) // of another type: unknown to protobuf too
	f(varint(8, 1))
	f(varint(9, 3))
}

// TestMetadataInParts: repeated, the field is one message.
func TestMetadataInParts(t *testing.T) {
	parts := append(field(8, message(t, map[string]any{"a": "b"})), field(8, message(t, map[string]any{"c": 2.0}))...)
	configs, err := decodeResources(response(t, append(varint(7, 1), parts...)))
	if err != nil {
		t.Fatal(err)
	}
	inner := configs[0].GetDescriptors()[0].GetDescriptors()[0]
	if got := inner.GetMetadata().AsMap(); !inner.GetQuotaMode() || len(got) != 2 || got["a"] != "b" || got["c"] != 2.0 {
		t.Errorf("the descriptor has quota_mode %t and metadata %v", inner.GetQuotaMode(), got)
	}
}

func TestResponsesThatAreRefused(t *testing.T) {
	f := func(res *discoveryv3.DiscoveryResponse) {
		t.Helper()
		if got, err := decodeResources(res); err == nil {
			t.Errorf("%v is taken for %v", res, got)
		}
	}
	f(response(t, field(8, []byte("not a struct"))))
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: TypeURL, Value: []byte{0xff}}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{}}})
	f(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{nil}})
	f(&discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"})
	if got, err := decodeResources(&discoveryv3.DiscoveryResponse{TypeUrl: TypeURL}); err != nil || len(got) != 0 {
		t.Errorf("an empty set: %v %v", got, err)
	}
}

// FuzzResponse decodes responses of any bytes.
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
		configs, err := decodeResources(res)
		if err != nil {
			if clipReason(err.Error()) == "" {
				t.Fatal("a refusal without a reason")
			}
			return
		}
		if len(configs) != len(res.GetResources()) {
			t.Fatalf("%d of %d resources were taken", len(configs), len(res.GetResources()))
		}
		for _, c := range configs {
			if _, err := proto.Marshal(c); err != nil {
				t.Fatal(err)
			}
		}
	})
}
