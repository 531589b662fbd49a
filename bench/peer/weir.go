package peer

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/bench/ours"
	"github.com/weirlimit/weir/store/memory"
)

// openWeir opens a token bucket on the memory store with its defaults.
func openWeir(limit Limit) (Allow, func(), error) {
	limiter, done, err := ours.Open(weir.Limits{{
		Algorithm: algorithm.TokenBucket, Count: 1, Period: limit.Every, Burst: limit.Burst,
	}}, memory.Options{})
	if err != nil {
		return nil, nil, err
	}
	return ours.Allow(limiter), done, nil
}
