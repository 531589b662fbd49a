package admit

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/weirlimit/weir"
)

// DecideAll decides reqs one after the other, and calls each with every decision. What
// could make one fail is looked for in all of them before the first is charged. With an
// error, that of the request at the index returned, nothing is charged; undo is why
// refund failed, nil if it did not.
func DecideAll(ctx context.Context, l *weir.Limiter, reqs []*weir.Request, each func(i int, d weir.Decision)) (at int, err, undo error) {
	for i, r := range reqs {
		if err := checkOps(l.Match(r)); err != nil {
			return i, err, nil
		}
	}
	for i, r := range reqs {
		d, err := l.Decide(ctx, r)
		if err != nil {
			return i, err, cancelAll(ctx, l, reqs[:i])
		}
		each(i, d)
	}
	return 0, nil, nil
}

// checkOps returns why a request that meets ops cannot be decided, weir.ErrCost or
// weir.ErrNoLease; nil if it can.
func checkOps(ops []weir.Op) error {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		if o.Cost+o.Headroom > weir.MaxCost {
			return weir.ErrCost
		}
		if o.ID == 0 && o.Verb != weir.Peek && o.Limit.Traits()&weir.Leases != 0 {
			return weir.ErrNoLease
		}
	}
	return nil
}

// cancelAll gives back what reqs were charged.
func cancelAll(ctx context.Context, l *weir.Limiter, reqs []*weir.Request) error {
	ctx, stop := detachContext(ctx)
	defer stop()
	var errs []error
	for _, r := range reqs {
		errs = append(errs, l.Cancel(ctx, r))
	}
	return errors.Join(errs...)
}

// Acquire decides r under its lease, a new one if it names none. Where ctx has ended
// meanwhile the name of a new lease is never heard: then it is released, and the error
// is that of ctx.
func Acquire(ctx context.Context, l *weir.Limiter, r *weir.Request) (weir.Decision, error) {
	if r.Lease == "" {
		r.Lease, r.NewLease = rand.Text(), true
	}
	d, err := l.Decide(ctx, r)
	if err != nil || !r.NewLease || !d.Allowed() || ctx.Err() == nil {
		return d, err
	}
	within, stop := detachContext(ctx)
	defer stop()
	if _, err := l.Release(within, r); err != nil {
		return weir.Decision{}, err
	}
	return weir.Decision{}, ctx.Err()
}
