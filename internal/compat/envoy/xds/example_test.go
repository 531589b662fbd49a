package xds_test

import (
	"context"
	"fmt"
	"time"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
)

// Nobody listens here: the client goes on trying until its context ends.
func Example() {
	client, err := xds.New(xds.Options{Server: "127.0.0.1:1", ConnectRetry: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	client.Run(ctx, func(configs []*rlsconfv3.RateLimitConfig) error {
		for _, c := range configs {
			fmt.Println(c.GetDomain())
		}
		return nil
	})
	fmt.Println(ctx.Err())
	// Output: context deadline exceeded
}
