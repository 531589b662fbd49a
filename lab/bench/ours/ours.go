// Package ours runs Weir as its users do: through the public Limiter, counters
// on, every Decision read in full.
package ours

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// Open returns a limiter of rules on a new memory store, and the function that
// ends it.
func Open(rules weir.Rules, opt memory.Options) (*weir.Limiter, func(), error) {
	store := memory.New(opt)
	limiter, err := weir.New(store, rules, weir.Options{})
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return limiter, func() { store.Close() }, nil
}

// Allow spends one unit of a key by Limiter.Take.
func Allow(l *weir.Limiter) func(key string) bool {
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Take(ctx, key, 1)
		return err == nil && passes(d)
	}
}

// passes reports whether d allows, and reads all of it: what a caller does who
// writes it into headers.
func passes(d weir.Decision) bool {
	return d.Allowed() && d.Limit != nil && d.Remaining >= 0 && d.RetryAfter == 0 && d.ResetAfter >= 0
}

// CheckCounters fails unless limit has counted n decisions: a limiter that does
// not count is faster.
func CheckCounters(limit *weir.Limit, n uint64) error {
	var sum uint64
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		sum += limit.Counters().Load(o)
	}
	if sum != n {
		return fmt.Errorf("limit %q counted %d decisions of %d", limit.Name, sum, n)
	}
	return nil
}
