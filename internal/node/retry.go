package node

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// openAtLast calls open every so often until it succeeds, and returns false if ctx ends
// before. failed is called with each error that differs from the one before; last is what
// the first is compared with.
func openAtLast(ctx context.Context, every time.Duration, last string, open func(context.Context) error, failed func(error)) bool {
	for {
		err := open(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && err.Error() != last {
			failed(err)
			last = err.Error()
		}
		if !backoff.Sleep(ctx, every) {
			return false
		}
	}
}
