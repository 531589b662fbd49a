package transport

import (
	"context"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// A Budget is the context of a decision that may make several calls one after the other:
// they have one budget together.
type Budget struct {
	context.Context
	ends clock.Node
	late time.Duration // in all that this process was, when it began
}

// BeginBudget starts the budget of a decision, unless ctx is one already.
func (q *Queue) BeginBudget(ctx context.Context) context.Context {
	if _, ok := ctx.(*Budget); ok {
		return ctx
	}
	b := &Budget{Context: ctx, ends: q.env.Now().Add(q.opt.Budget.Microseconds())}
	if q.env.Late != nil {
		b.late = q.env.Late(0)
	}
	return b
}

// DetachBudget returns a context with a budget of its own, for what goes on when the caller
// goes.
func (q *Queue) DetachBudget(ctx context.Context) context.Context {
	return q.BeginBudget(context.WithoutCancel(ctx))
}

// BudgetLeft returns how long a decision may still wait. The caller's own deadline does not
// shorten it: a caller whose context ends earlier gets its error and no decision, so
// nobody chooses what becomes of a limit by a short deadline.
func (q *Queue) BudgetLeft(ctx context.Context) time.Duration {
	b, ok := ctx.(*Budget)
	if !ok {
		return q.opt.Budget
	}
	left := time.Duration(b.ends-q.env.Now()) * time.Microsecond
	if q.env.Late != nil && left < q.opt.Budget {
		// What it waited for this process, in calls before this one, it did not wait for the store.
		left += min(q.env.Late(b.late), maxStarved*time.Microsecond)
	}
	return min(q.opt.Budget, max(left, 0))
}
