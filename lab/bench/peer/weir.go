package peer

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/store/memory"
)

// openBucket opens a token bucket on the memory store with its defaults.
func openBucket(limit Limit) (Allow, func(), error) {
	return open(&weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Period: limit.Every, Burst: limit.Burst})
}

// openWindow opens a strict window, of an hour at most: over decades no
// measurement would see one of its sub-windows end.
func openWindow(limit Limit) (Allow, func(), error) {
	return open(&weir.Limit{Algorithm: algorithm.SlidingWindow, Count: limit.Burst, Period: min(limit.Window(), time.Hour)})
}

func open(limit *weir.Limit) (Allow, func(), error) {
	limiter, done, err := ours.Open(weir.Limits{limit}, memory.Options{})
	if err != nil {
		return nil, nil, err
	}
	return ours.Allow(limiter), done, nil
}
