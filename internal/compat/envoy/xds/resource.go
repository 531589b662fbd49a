package xds

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// decodeResources returns the resources of a response. Its error is what the management
// server is told.
func decodeResources(res *discoveryv3.DiscoveryResponse) ([]*rlsconfv3.RateLimitConfig, error) {
	if got := res.GetTypeUrl(); got != "" && got != TypeURL {
		return nil, fmt.Errorf("response is of type %q, want %q", got, TypeURL)
	}
	configs := make([]*rlsconfv3.RateLimitConfig, 0, len(res.GetResources()))
	for _, any := range res.GetResources() {
		c := new(rlsconfv3.RateLimitConfig)
		if err := anypb.UnmarshalTo(any, c, proto.UnmarshalOptions{}); err != nil {
			return nil, err
		}
		configs = append(configs, c)
	}
	return configs, nil
}
