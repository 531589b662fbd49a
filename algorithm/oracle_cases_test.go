package algorithm_test

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

func oracleCases() []oracleCase {
	burst := func(l *weir.Limit) int64 { return l.Burst }
	places := func(l *weir.Limit) int64 { return newQueueOracle(l).(*bucketOracle).most }
	return []oracleCase{
		{name: "token_bucket", limit: someMeter(algorithm.TokenBucket), model: newMeterOracle, most: burst},
		{name: "leaky_bucket", limit: someMeter(algorithm.LeakyBucket), model: newMeterOracle, most: burst},
		{name: "leaky_queue", limit: someQueue, model: newQueueOracle, most: places},
		{name: "fixed_window", limit: someFixed, model: newFixedOracle, most: countOf},
		{name: "sliding_window", limit: someWindow, model: newWindowOracle, most: countOf},
		{name: "sliding_counter", limit: someCounter, model: newCounterOracle, most: countOf},
		{name: "sliding_subwindows", limit: someSubwindows(params.Strict), model: newSubwindowsOracle, most: countOf},
		{name: "sliding_subwindows_weighted", limit: someSubwindows(params.Weighted), model: newSubwindowsOracle, most: countOf},
		{name: "sliding_subwindows_lenient", limit: someSubwindows(params.Lenient), model: newSubwindowsOracle, most: countOf},
		{name: "sliding_log", limit: someLog, model: newLogOracle, most: countOf},
		{name: "concurrency", limit: someLeases, model: newLeaseOracle, most: countOf},
		{name: "lockout", limit: someLockout, model: newLockoutOracle, most: countOf},
	}
}
