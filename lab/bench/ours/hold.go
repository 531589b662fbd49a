package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/store/memory"
)

// Kept is a kind of state that Weir keeps for a key.
type Kept struct {
	Name string
	// Limit under which a key lives for a quarter of an hour or more after its
	// first unit, longer than any measurement.
	Limit func() *weir.Limit
	// Aim is the most heap per key, in bytes.
	Aim float64
}

// Kinds lists the kinds of state, smallest first.
var Kinds = []Kept{
	{"weir, 1 word", func() *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 96, Period: 24 * time.Hour}
	}, 24},
	{"weir, 1 word (sliding counter)", func() *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 500, Period: time.Hour}
	}, 24},
	{"weir, 2 words", func() *weir.Limit {
		// 4,999 in lowest terms is more than fits below the microsecond.
		return &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 4999, Period: 365 * 24 * time.Hour}
	}, 36},
	{"weir, 3 words (sliding window)", func() *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: 500, Period: time.Hour}
	}, 44},
	{"weir, 60 sub-windows", func() *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.SlidingSubwindows, Count: 500, Period: time.Hour}
	}, 138 + 24},
}

// Hold opens a limiter of the given kind of state. allow is false also for a
// decision that was not made from a key's own state: the store was full.
func Hold(name string) (allow func(string) bool, done func(), err error) {
	for _, k := range Kinds {
		if k.Name != name {
			continue
		}
		limit := k.Limit()
		limiter, done, err := Open(weir.Limits{limit}, Roomy())
		if err != nil {
			return nil, nil, err
		}
		return Exact(limiter, limit), done, nil
	}
	return nil, nil, fmt.Errorf("no kind of state %q", name)
}

// Exact is Allow that takes a decision which is not exact for a refusal.
func Exact(l *weir.Limiter, limit *weir.Limit) func(key string) bool {
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Take(ctx, key, 1)
		return err == nil && passes(d) && d.Limit == limit
	}
}

// Roomy returns store options that leave the bound to the machine: most of its
// memory instead of a quarter.
func Roomy() memory.Options {
	return memory.Options{MaxBytes: measure.MachineMemory() / 4 * 3}
}
