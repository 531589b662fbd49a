package transport

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir/internal/background"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/store/internal/clock"
)

// probeOwnEvery is how often a server of a store that is used alone is probed.
const probeOwnEvery = 250 * time.Millisecond

// NewOwnQueue returns the queue of a store that is used alone. There is nowhere else to go where
// its only shard does not answer, so that has no breaker.
func NewOwnQueue(store Driven, opt Options) *Queue {
	driver, tuning := store.Driver()
	base, meter := time.Now(), lateness.New()
	opt.ProbeEvery, opt.Seed, opt.NeverOpens, opt.Tuning = probeOwnEvery, rand.Uint64(), driver.Shards() == 1, tuning
	q := New(driver, NewEnv(func() clock.Node { return clock.Node(time.Since(base) / time.Microsecond) }, meter), opt)
	q.meter = meter
	return q
}

// ClassOf returns the class of a call under ctx of such a store.
func ClassOf(ctx context.Context) Class {
	if background.Of(ctx) != nil {
		return Background
	}
	return Foreground
}
