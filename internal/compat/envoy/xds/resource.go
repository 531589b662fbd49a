package xds

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirlimit/weir/internal/wire"
)

// fieldMetadata is the number of a field of RateLimitDescriptor, a
// google.protobuf.Struct, that envoyproxy/ratelimit reads and that the published
// Go types do not name yet.
// Source: envoyproxy/ratelimit, api/ratelimit/config/ratelimit/v3/rls_conf.proto.
const fieldMetadata = 8

// decode returns the resources of a response. Its error is what the management
// server is told.
func decode(res *discoveryv3.DiscoveryResponse) ([]*rlsconfv3.RateLimitConfig, error) {
	if got := res.GetTypeUrl(); got != "" && got != TypeURL {
		return nil, fmt.Errorf("response is of type %q, want %q", got, TypeURL)
	}
	configs := make([]*rlsconfv3.RateLimitConfig, 0, len(res.GetResources()))
	for _, any := range res.GetResources() {
		c := new(rlsconfv3.RateLimitConfig)
		if err := anypb.UnmarshalTo(any, c, proto.UnmarshalOptions{}); err != nil {
			return nil, err
		}
		if err := checkMetadata(c.GetDescriptors()); err != nil {
			return nil, err
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// checkMetadata reports whether the metadata of descriptors can be decoded,
// which the Go types leave undone.
func checkMetadata(ds []*rlsconfv3.RateLimitDescriptor) error {
	for _, d := range ds {
		err := wire.Each(d.ProtoReflect().GetUnknown(), func(f wire.Field) error {
			if f.Is(fieldMetadata, protowire.BytesType) {
				return proto.Unmarshal(f.Bytes, new(structpb.Struct))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := checkMetadata(d.GetDescriptors()); err != nil {
			return err
		}
	}
	return nil
}
