package transport

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// DecideInBudget decides ops for a caller who waits as long as the budget that ctx is, or a whole
// one, and no longer than ctx: in one call, or in several if they are of several parts. It
// returns when they were sent. An error is a *Result.
func (q *Queue) DecideInBudget(ctx context.Context, ops []weir.Op) (clock.Node, error) {
	return q.DecideByClass(ctx, Foreground, nil, ops)
}

// DecideInBackground is Do for ops that no decision waits for. It waits as long as the timeout.
func (q *Queue) DecideInBackground(ops []weir.Op) (clock.Node, error) {
	return q.DecideByClass(context.Background(), Background, nil, ops)
}

// DecideForFlight is Later for ops that bring what decisions wait for, as f says, made for the
// caller of ctx, whose end does not matter.
func (q *Queue) DecideForFlight(ctx context.Context, f *Flight, ops []weir.Op) (clock.Node, error) {
	defer f.Overdue.Store(false)
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return q.DecideByClass(ctx, Fetch, f, ops)
}

// DecideByClass decides ops of a class, f of a Fetch, for a caller who waits no longer than ctx.
func (q *Queue) DecideByClass(ctx context.Context, class Class, f *Flight, ops []weir.Op) (clock.Node, error) {
	divider := q.divider
	if divider == nil || !isDivided(divider, ops) {
		return q.takePart(ctx, class, f, ops, nil, false)
	}
	sent := q.env.Now()
	// The calls have the budget of the decision together; what is given back has one of its own.
	take := func(ctx context.Context, ops []weir.Op) (renewed []bool, err error) {
		_, err = q.takePart(ctx, class, f, ops, &renewed, false)
		return renewed, err
	}
	return sent, decideAcrossParts(q.BeginBudget(ctx), q.env, ops, divider, take, func(ctx context.Context, ops []weir.Op, end func(error)) (bool, error) {
		_, again, err := q.Repeater.CallOnce(ctx, class, ops, true, func(_ []weir.Op, _ clock.Node, err error) { end(err) })
		return again, err
	})
}

// isDivided reports whether ops are of several parts.
func isDivided(d Divider, ops []weir.Op) bool {
	first, isAsked := 0, false
	for i := range ops {
		if len(ops) == 1 || ops[i].Role == weir.Deny {
			continue
		}
		part := d.Part(ops[i].Key)
		if isAsked && part != first {
			return true
		}
		first, isAsked = part, true
	}
	return false
}
