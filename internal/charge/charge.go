// Package charge keeps what one request was charged, and what it holds until it
// is over.
package charge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/faults"
)

// Timeout bounds a call to the store that outlives its request.
const Timeout = 5 * time.Second

// leastRenewal is the shortest interval at which a lease is renewed.
const leastRenewal = 10 * time.Millisecond

// Charge is what a request was charged, and what it holds until it is over. The
// zero Charge is ready for Begin. One goroutine uses it at a time.
type Charge struct {
	// Req is to be filled after Begin, and decided.
	Req     weir.Request
	limiter *weir.Limiter
	faults  *faults.Log
	held    []weir.Op // the leases, each as what renews it
	renewal *renewal  // nil when nothing is held
	passed  time.Time // when it went on; zero where nobody wants to know
}

// Begin takes a request to fill.
func (c *Charge) Begin(l *weir.Limiter, f *faults.Log, domain string) {
	c.limiter, c.faults = l, f
	c.Req.Domain, c.Req.NewLease = domain, true
}

// Pass notes that the request goes on now, for those who are told how it ends.
func (c *Charge) Pass() {
	if c.limiter.WantsResults() {
		c.passed = time.Now()
	}
}

// tell tells observers how the request ended.
func (c *Charge) tell(ctx context.Context, res weir.Result) {
	if c.passed.IsZero() {
		return
	}
	res.Duration = time.Since(c.passed)
	c.passed = time.Time{}
	if res.Code == weir.NoAnswer && errors.Is(ctx.Err(), context.Canceled) {
		res.Code = weir.ClientGone
	}
	c.limiter.End(&c.Req, res)
}

// Hold keeps the leases that the last decision granted alive until Drop.
func (c *Charge) Hold(ctx context.Context) {
	period := weir.Forever
	for _, o := range c.Req.Ops() {
		if o.Charged && o.Limit.Traits()&weir.Leases != 0 {
			// Each on its own account: one that was lost must not take the others
			// with it.
			c.held = append(c.held, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always})
			period = min(period, o.Limit.Period)
		}
	}
	if len(c.held) > 0 {
		c.renewal = renew(context.WithoutCancel(ctx), c.limiter, c.faults, c.held, max(period/3, leastRenewal))
	}
}

// Drop stops the renewal of leases.
func (c *Charge) Drop() {
	if c.renewal != nil {
		c.renewal.stop()
		c.renewal = nil
	}
}

// Cancel gives back all that was charged, leases too.
func (c *Charge) Cancel(ctx context.Context) {
	c.Drop()
	c.held = c.held[:0]
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer stop()
	if err := c.limiter.Cancel(ctx, &c.Req); err != nil {
		c.faults.Report("giving back failed", err)
	}
}

// Settle carries out what is to become of the charge, now that it is known how
// the request ended, and tells observers. When there is no answer because whoever
// sent it has gone, the charge stands: else who hangs up in time would never be
// counted.
func (c *Charge) Settle(ctx context.Context, res weir.Result) {
	c.tell(ctx, res)
	if !c.Req.Unsettled() || res.Code == weir.NoAnswer && errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer stop()
	if err := c.limiter.Settle(ctx, &c.Req, res); err != nil {
		c.faults.Report("settling a charge failed", err)
	}
}

// Release gives the leases back. It asks no rules, which may have changed since
// the leases were granted.
func (c *Charge) Release(ctx context.Context) {
	c.Drop()
	if len(c.held) == 0 {
		return
	}
	for i := range c.held {
		c.held[i] = c.held[i].Undo(c.held[i].Cost)
		c.held[i].NewLease = true
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer stop()
	if _, err := c.limiter.Apply(ctx, c.held); err != nil {
		c.faults.Report("releasing a lease failed", err)
	}
	c.held = c.held[:0]
}

// End empties the charge for its next use.
func (c *Charge) End() {
	c.Req.Reset()
	c.limiter, c.faults, c.passed = nil, nil, time.Time{}
}

// Finish ends the charge of a request that was answered, or was not: it settles,
// gives leases back and empties the charge.
func (c *Charge) Finish(ctx context.Context, res weir.Result) {
	c.Settle(ctx, res)
	c.Release(ctx)
	c.End()
}

// Holds reports whether there is something to do when the request is over.
func (c *Charge) Holds() bool { return len(c.held) > 0 || c.Unsettled() }

// Unsettled reports whether it must be known how the request ended: its charge is
// settled by it, or observers are told.
func (c *Charge) Unsettled() bool { return !c.passed.IsZero() || c.Req.Unsettled() }

// renewal spends leases again every so often, which renews them. No goroutine
// waits for it: most requests are over before the first renewal.
type renewal struct {
	ctx     context.Context
	limiter *weir.Limiter
	faults  *faults.Log
	every   time.Duration

	mu      sync.Mutex
	leases  []weir.Op
	timer   *time.Timer
	stopped bool
}

func renew(ctx context.Context, l *weir.Limiter, f *faults.Log, leases []weir.Op, every time.Duration) *renewal {
	r := &renewal{ctx: ctx, limiter: l, faults: f, leases: leases, every: every}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(every, r.run)
	return r
}

func (r *renewal) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	ctx, stop := context.WithTimeout(r.ctx, Timeout)
	defer stop()
	if _, err := r.limiter.Apply(ctx, r.leases); err != nil {
		r.faults.Report("renewing a lease failed", err)
	}
	r.timer.Reset(r.every)
}

// stop ends the renewal. It waits for one that is under way, Timeout at
// most: one that reached the store after the release would take the lease anew.
func (r *renewal) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.timer.Stop()
}
