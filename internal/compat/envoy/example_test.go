package envoy_test

import (
	"context"
	"fmt"
	"os"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy"
)

func Example() {
	s := envoy.New(envoy.Options{Now: func() int64 { return 1_700_000_000 }})
	err := s.LoadFiles([]envoy.File{{Name: "config.shop.yaml", Content: []byte(`
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
`)}}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}},
	}}
	for range 3 {
		resp, err := s.ShouldRateLimit(context.Background(), req)
		if err != nil {
			fmt.Println(err)
			return
		}
		st := resp.Statuses[0]
		fmt.Println(resp.OverallCode, st.LimitRemaining, "left, for", st.DurationUntilReset.AsDuration())
	}
	if err := s.Dump(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// OK 1 left, for 40s
	// OK 0 left, for 40s
	// OVER_LIMIT 0 left, for 40s
	// shop.user: unit=MINUTE requests_per_unit=2, shadow_mode: false, quota_mode: false
}

func ExampleCheckFiles() {
	fmt.Println(envoy.CheckFiles([]envoy.File{{Name: "shop.yaml", Content: []byte("domain: shop\ndescriptors: [{key: user, limit: 5}]")}}, false))
	// Output: shop.yaml: config error, unknown key 'limit'
}
