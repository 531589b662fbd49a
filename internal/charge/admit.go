package charge

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/pauses"
)

// How often a request asks whether a place has become free.
const (
	leastPoll = 10 * time.Millisecond
	mostPoll  = time.Second
)

// Refusal makes the error of a request that is not sent: the name of the limit
// that refused, empty when its key asked to be left alone, and the least wait
// after which the same request may be sent, or weir.Never.
type Refusal func(limit string, wait time.Duration) error

// Undecided is the error of a request that the store did not decide.
type Undecided struct{ Err error }

// Error implements error.
func (e *Undecided) Error() string { return e.Err.Error() }

// Unwrap serves errors.Is.
func (e *Undecided) Unwrap() error { return e.Err }

// Admit decides Req for one who would rather be late than refused, and holds what
// it grants. It waits as w allows, and while key is to be left alone by paused.
// Its error is one of refuse's, that of w's context, or an *Undecided; then
// nothing is charged.
func (c *Charge) Admit(ctx context.Context, w *pauses.Waiter, paused *pauses.Set, key string, refuse Refusal) error {
	for poll := leastPoll; ; poll = min(2*poll, mostPoll) {
		if err := pass(w, paused, key, refuse); err != nil {
			return err
		}
		d, err := c.limiter.Decide(ctx, &c.Req)
		switch {
		case err != nil:
			return &Undecided{err}
		case d.Allowed():
			c.Hold(ctx)
			if err = c.proceed(w, paused, key, refuse); err != nil {
				c.Cancel(ctx)
				return err
			}
			c.Pass()
			return nil
		}
		limit, wait := "", d.RetryAfter
		if d.Limit != nil {
			limit = d.Limit.Name
		}
		refused := refuse(limit, wait)
		if wait == weir.Never {
			return refused
		}
		if d.Limit != nil && d.Limit.Traits()&weir.Leases != 0 {
			// How long others hold their places is not known: RetryAfter is when
			// they lose them if they died.
			wait = min(wait, poll)
		}
		if err := w.Sleep(wait, refused); err != nil {
			return err
		}
	}
}

// pass waits until key is no longer to be left alone.
func pass(w *pauses.Waiter, paused *pauses.Set, key string, refuse Refusal) error {
	for {
		left := paused.Left(key, time.Now())
		if left == 0 {
			return nil
		}
		if err := w.Sleep(left, refuse("", left)); err != nil {
			return err
		}
	}
}

// proceed waits as long as the limits that delay say, and longer if an answer
// has asked for it meanwhile.
func (c *Charge) proceed(w *pauses.Waiter, paused *pauses.Set, key string, refuse Refusal) error {
	if delay := c.Req.Delay(); delay > 0 {
		limit := ""
		for _, o := range c.Req.Ops() {
			if o.Role == weir.Enforce && o.Decision.Delay(o.Cost) == delay {
				limit = o.Limit.Name
			}
		}
		if err := w.Sleep(delay, refuse(limit, delay)); err != nil {
			return err
		}
	}
	return pass(w, paused, key, refuse)
}
