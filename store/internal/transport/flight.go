package transport

import (
	"context"
	"sync/atomic"
)

// A Flight is a fetch under way: one call or several, one after the other, that bring what
// decisions wait for. Safe for concurrent use, once it has begun.
type Flight struct {
	// Waited: a decision waits for it, or has. Overdue: the call under way has had the
	// budget, and no decision waits for it.
	Waited, Overdue atomic.Bool

	over   atomic.Bool
	err    error
	landed Gate // closed when it is over
}

// Begin begins a flight, which is the zero value before.
func (t *Flight) Begin() { t.landed = make(Gate) }

// Launch runs f, which makes the calls of a flight, on a goroutine. An error is a *Result.
func (q *Queue) Launch(f func()) error {
	if q.IsOpen() {
		return errOpen
	}
	if !q.Go(f) {
		return errClosed
	}
	return nil
}

// Land ends a flight. err is why it has brought nothing, if it has not.
func (t *Flight) Land(err error) {
	t.err = err
	t.over.Store(true)
	close(t.landed)
}

// AwaitFlight waits for a flight as long as the budget that ctx is allows, and no longer than
// ctx. It does not wait for one that is overdue. It returns why nothing was brought.
func (q *Queue) AwaitFlight(ctx context.Context, t *Flight) error {
	t.Waited.Store(true)
	if !t.Overdue.Load() && q.env.Park(ctx, t.landed, q.BudgetLeft(ctx)) == Ended {
		return &Result{Outcome: CallerGone, Err: ctx.Err()}
	}
	if t.over.Load() {
		return t.err
	}
	return errLate
}

// AwaitLanding waits until a flight is over or ctx ends.
func (q *Queue) AwaitLanding(ctx context.Context, t *Flight) error {
	for !t.over.Load() {
		if q.env.Park(ctx, t.landed, q.opt.Timeout) == Ended {
			return ctx.Err()
		}
	}
	return nil
}
