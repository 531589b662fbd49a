package sharedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

var lending = []weir.Algorithm{
	algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter,
	algorithm.SlidingSubwindows,
}

// lendingWindows are the algorithms that lend units for a time.
var lendingWindows = []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.SlidingWindow, algorithm.SlidingSubwindows}

// lasting are the algorithms whose refusals can be remembered.
var lasting = []weir.Algorithm{
	algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter,
	algorithm.SlidingSubwindows, algorithm.SlidingLog, algorithm.Lockout,
}

// countedAs are the ways to count a limit.
var countedAs = []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal}

func compiled(t testing.TB, l *weir.Limit, change func(*weir.Limit)) *weir.Limit {
	t.Helper()
	if change != nil {
		change(l)
	}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func strict(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyStrict }

func leased(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLeased }

func leasedOr(p params.StoreErrorPolicy) func(*weir.Limit) {
	return func(l *weir.Limit) {
		leased(l)
		l.Consistency.OnStoreError = p
	}
}

func eventual(over int64) func(*weir.Limit) {
	return func(l *weir.Limit) {
		l.Consistency.Mode = params.ConsistencyEventual
		l.Consistency.MaxOvershoot = over
	}
}

func onError(p params.StoreErrorPolicy) func(*weir.Limit) {
	return func(l *weir.Limit) {
		strict(l)
		l.Consistency.OnStoreError = p
	}
}

// rare is a limit of n units of which none comes back while a test runs.
func rare(t testing.TB, n int64, a weir.Algorithm, m params.ConsistencyMode) *weir.Limit {
	return compiled(t, &weir.Limit{Name: fmt.Sprint(m, " ", a.Name()), Algorithm: a, Count: n, Period: 10_000 * time.Hour}, func(l *weir.Limit) {
		l.Consistency.Mode, l.Consistency.LeaseTTL = m, time.Second
		if m == params.ConsistencyEventual {
			l.Consistency.MaxOvershoot = n / 20
		}
	})
}

// settled is the limit whose charge marks a held as refunded.
func settled(t testing.TB) *weir.Limit {
	return compiled(t, &weir.Limit{
		Name: "settled", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Hour, Params: params.Params{Anchor: params.AnchorFirst},
		Consistency: params.Consistency{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorDeny},
	}, nil)
}

func indexOf(limits []*weir.Limit, l *weir.Limit) int {
	for i := range limits {
		if limits[i] == l {
			return i
		}
	}
	return -1
}
