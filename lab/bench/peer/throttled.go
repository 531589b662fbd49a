package peer

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// openThrottled opens throttled's GCRA limiter on its unbounded memory store,
// with its default of ten compare-and-swap attempts.
func openThrottled(limit Limit) (Allow, func(), error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(1, limit.Every),
		// throttled counts the burst on top of the one unit of its rate.
		MaxBurst: int(limit.Burst) - 1,
	})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	allow := func(key string) bool {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}
	return allow, func() {}, nil
}
