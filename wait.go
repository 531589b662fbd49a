package weir

import (
	"context"
	"fmt"
	"time"
)

// Wait is Decide for callers who would rather be late than refused: it sleeps
// until the request may proceed, for a shaping limit as long as it says, and
// else as long as RetryAfter says, again and again. Under a concurrency limit it
// asks again up to once a second, since nobody knows when the others are done. It
// returns the last decision, refused only if the request can never pass, and
// ctx.Err() when ctx ends first: then the decision refuses, and what was charged
// is given back. If ctx would end before the wait is over it does not wait.
func (l *Limiter) Wait(ctx context.Context, r *Request) (Decision, error) {
	for poll := leastPoll; ; poll = min(2*poll, mostPoll) {
		d, err := l.Decide(ctx, r)
		if err != nil || d.RetryAfter == Never {
			return d, err
		}
		wait := d.RetryAfter
		switch {
		case d.Allowed():
			wait = r.Delay()
		case d.Limit != nil && d.Limit.traits&Leases != 0:
			// RetryAfter is when those who hold a place lose it if they died.
			wait = min(wait, poll)
		}
		if wait == 0 {
			return d, nil
		}
		if err := sleep(ctx, wait); err != nil {
			if d.Allowed() {
				err = joinCancel(err, l.Cancel(context.WithoutCancel(ctx), r))
				d = Decision{}
			}
			return d, err
		}
		if d.Allowed() {
			return d, nil
		}
	}
}

// How often Wait asks again for a place under a concurrency limit.
const (
	leastPoll = 10 * time.Millisecond
	mostPoll  = time.Second
)

func joinCancel(err, cancel error) error {
	if cancel != nil {
		return fmt.Errorf("%w (and giving the place back failed: %w)", err, cancel)
	}
	return err
}

// sleep waits for d, unless ctx ends within it: then it returns at once.
func sleep(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
