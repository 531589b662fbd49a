package client

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
)

// Why the service was not asked. Decision.Cause wraps one of them, or what the
// service or the network said.
var (
	// ErrOpen: it has not answered lately.
	ErrOpen = errors.New("weir: circuit breaker open: the service is unavailable")
	// ErrThrottled: it fails too often.
	ErrThrottled = errors.New("weir: the service fails often; this call was spared it")
	// ErrInFlight: MaxInFlight calls are under way.
	ErrInFlight = errors.New("weir: too many calls to the service are under way")
)

// unavailable is a call that the service did not answer.
type unavailable struct {
	cause error
	// sent: it was asked, and what it was asked may have been done.
	sent bool
	// left is how long the service is left alone.
	left time.Duration
}

func (u *unavailable) Error() string { return u.cause.Error() }
func (u *unavailable) Unwrap() error { return u.cause }

// callService makes one call to the service, guarded: it takes Budget at most, and is
// not made while the breaker is open, where the throttle refuses it, or above
// MaxInFlight. Its error is an *unavailable, an *Error, or the context's.
func (c *Client) callService(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.inFlight.Add(1) > int64(c.opt.MaxInFlight) {
		c.inFlight.Add(-1)
		c.counts.crowded.Add(1)
		return &unavailable{cause: ErrInFlight}
	}
	defer c.inFlight.Add(-1)
	start := time.Now()
	ok, probe, left := c.breaker.admitCall(start)
	if !ok {
		c.counts.broken.Add(1)
		return &unavailable{cause: ErrOpen, left: left}
	}
	// The breaker's probes are few: what they find is worth more than the call.
	ticket, ok := c.throttle.Begin()
	if !ok && !probe {
		c.counts.throttled.Add(1)
		return &unavailable{cause: ErrThrottled}
	}
	budget := c.opt.Budget
	if end, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(end)/2)
	}
	within, cancel := context.WithTimeout(ctx, budget)
	returned := false
	defer func() {
		cancel()
		if !returned && probe { // do panics
			c.breaker.canceled()
		}
	}()
	c.counts.calls.Add(1)
	err := do(within)
	returned = true
	return c.recordResult(ctx, err, sent{ticket, probe, budget})
}

// sent is a call that was made.
type sent struct {
	ticket int64
	probe  bool
	budget time.Duration
}

// recordResult tells the guards how a call went, and its caller.
func (c *Client) recordResult(ctx context.Context, err error, s sent) error {
	var wrong *Error
	if err == nil || errors.As(err, &wrong) {
		c.throttle.Accept(s.ticket)
		c.breaker.succeeded(s.probe)
		if c.outages.endOutage() {
			c.opt.Log.Info("rate limit service answers again")
		}
		if err != nil {
			c.counts.wrong.Add(1)
		}
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		// Our caller has gone: that says nothing of the service.
		c.neutral(s)
		return ctx.Err()
	}
	now := time.Now()
	var opened bool
	var busy *Busy
	switch {
	case errors.As(err, &busy):
		c.counts.busy.Add(1)
		opened = c.breaker.recordBusy(now, busy.RetryAfter, s.probe)
	case !errors.Is(err, context.DeadlineExceeded):
		c.counts.failures.Add(1)
		opened = c.breaker.recordFailure(now, s.probe)
	case s.budget < c.opt.Budget/4:
		// A caller in such a hurry shows nothing about the service.
		c.counts.timeouts.Add(1)
		c.neutral(s)
	default:
		c.counts.timeouts.Add(1)
		opened = c.breaker.recordFailure(now, s.probe)
	}
	_, left := c.breaker.state(now)
	if opened {
		c.counts.opened.Add(1)
	}
	return &unavailable{cause: err, sent: busy == nil, left: left}
}

// neutral tells the guards of a call from which nothing can be learnt.
func (c *Client) neutral(s sent) {
	c.throttle.Forget(s.ticket)
	if s.probe {
		c.breaker.canceled()
	}
}

// without decides what the service did not.
func (c *Client) without(ctx context.Context, ks []Check, peek bool, why *unavailable) ([]Decision, error) {
	if c.outages.beginOutage(time.Now()) {
		c.opt.Log.Warn("rate limit service does not answer; checks are decided by the fallback", "err", why.cause, "fallback", c.opt.Fallback)
	}
	out := make([]Decision, len(ks))
	for i := range ks {
		d := Decision{Source: Policy, Remaining: -1}
		switch c.opt.Fallback {
		case Allow:
			d.Allowed = true
			c.counts.allowed.Add(1)
		case Deny:
			// When the service may be asked again.
			d.RetryAfter = max(why.left, c.opt.Budget)
			c.counts.denied.Add(1)
		case DecideLocally:
			var err error
			if d, err = c.locally(ctx, &ks[i], peek); err != nil {
				return nil, err
			}
			c.counts.local.Add(1)
		}
		d.Degraded, d.Cause = true, why.cause
		out[i] = d
	}
	return out, nil
}

// locally lets Options.Local decide.
func (c *Client) locally(ctx context.Context, k *Check, peek bool) (Decision, error) {
	l := c.opt.Local
	r := l.Acquire()
	defer l.Recycle(r)
	k.fillRequest(r)
	if peek {
		r.Verb = weir.Peek
	}
	d, err := l.Decide(ctx, r)
	if err != nil {
		return Decision{}, err
	}
	out := Decision{
		Allowed: d.Allowed(), RetryAfter: d.RetryAfter, Remaining: -1, ResetAfter: d.ResetAfter,
		Limit: limitOf(d.Limit), Source: Local,
	}
	if d.Limit != nil {
		out.Remaining = d.Remaining
	}
	if out.Allowed {
		out.Delay, out.Soft, out.Borrowed = r.Delay(), r.Soft(), r.Borrowed()
	}
	return out, nil
}

// fillRequest makes the request of a limiter of this process.
func (c *Check) fillRequest(r *weir.Request) {
	r.Domain, r.Cost, r.Priority, r.Lease = c.Domain, c.Cost, c.Priority, c.Lease
	r.Descriptors = append(r.Descriptors, c.Descriptors...)
}

func limitOf(l *weir.Limit) *Limit {
	if l == nil {
		return nil
	}
	return &Limit{Name: l.Name, Count: l.Count, Burst: l.Burst, Period: l.Period, Algorithm: l.Algorithm.Name()}
}
