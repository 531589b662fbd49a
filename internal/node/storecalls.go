package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/metrics"
)

// storeCalls measures the calls of the store that nodes share, and has them followed. Safe for
// concurrent use.
type storeCalls struct {
	*metrics.Calls
	// follow is nil while nobody is followed.
	follow atomic.Pointer[followCall]
}

var _ storecalls.Watcher = (*storeCalls)(nil)

func newStoreCalls() *storeCalls { return &storeCalls{Calls: metrics.NewCalls()} }

// followCall is told of a call that decides so many limits. It returns the context to
// make it in, and what is told the kind of its failure, empty for none, when it ends;
// nil for a call of nobody who is followed.
type followCall func(ctx context.Context, limits int) (context.Context, func(failure string))

// followBy has calls followed from now on.
func (c *storeCalls) followBy(f followCall) { c.follow.Store(&f) }

// Begin implements storecalls.Watcher.
func (c *storeCalls) Begin(ctx context.Context, limits int) (context.Context, func(failure string)) {
	f := c.follow.Load()
	if f == nil {
		return ctx, nil
	}
	return (*f)(ctx, limits)
}

// End implements storecalls.Watcher.
func (c *storeCalls) End(took time.Duration, failure string, report func(failure string)) {
	c.Observe(took, failure)
	if report != nil {
		report(failure)
	}
}

// Fail implements storecalls.Watcher.
func (c *storeCalls) Fail(failure string) { c.CountFailure(failure) }
