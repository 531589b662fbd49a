package admit

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/backoff"
)

// Admission is one request from its decision to its end: what it was charged, and the
// permits that it holds. The zero Admission is ready for Begin. One goroutine uses it at
// a time.
type Admission struct {
	// Req is to be filled after Begin, and decided. With NewLease, permits that it is
	// granted are renewed until Release.
	Req weir.Request
	// MaxDelay is the longest that the request waits. Begin sets it to the gate's.
	MaxDelay time.Duration

	gate *Gate
	// wait is mayWait, made once.
	wait func(context.Context, time.Duration) time.Duration
	// delay is how long the request waits, in a place of the gate's room; 0 for not at
	// all.
	delay   time.Duration
	permits []weir.Op // the ops that renew them
	renewal *renewal  // nil when there are no permits
	passed  time.Time // when the request went on; zero where no observer is to learn how it ends
}

// NewAdmission returns an admission to keep in a pool. Its request is one of the
// limiter's, so that a decision is timed as often however seldom the pool is used.
func (g *Gate) NewAdmission() *Admission { return &Admission{Req: *g.Limiter.Acquire()} }

// Begin takes a request to fill.
func (a *Admission) Begin(g *Gate) {
	a.gate, a.MaxDelay, a.Req.Domain = g, g.maxDelay, g.Domain
	if a.wait == nil {
		a.wait = a.mayWait
	}
}

// Decide decides the request. One that is allowed may proceed after Wait; one that would
// have to wait longer than it may is refused, charged nothing, and its RetryAfter is the
// rest of the wait, or all of it under [Options].WithinDeadline. Its errors are those of [weir.Limiter.Decide]; with one, nothing is
// charged or held.
func (a *Admission) Decide(ctx context.Context) (weir.Decision, error) {
	a.Req.AcceptDelay = a.wait
	return a.decideAndHold(ctx)
}

// DecidePeek is Decide for a request that only looks: it never waits.
func (a *Admission) DecidePeek(ctx context.Context) (weir.Decision, error) {
	a.Req.AcceptDelay = nil
	return a.decideAndHold(ctx)
}

func (a *Admission) decideAndHold(ctx context.Context) (weir.Decision, error) {
	d, err := a.gate.Limiter.Decide(ctx, &a.Req)
	if err == nil && a.Req.NewLease && d.Allowed() {
		a.holdPermits(ctx)
	}
	return d, err
}

// travel is how much of a caller's deadline is left for the response to arrive.
const travel = 2 * time.Millisecond

// mayWait is [weir.Request.AcceptDelay].
func (a *Admission) mayWait(ctx context.Context, delay time.Duration) (retryAfter time.Duration) {
	most, within := a.MaxDelay, a.gate.withinDeadline
	if end, ok := ctx.Deadline(); ok && within {
		most = min(most, time.Until(end)-travel)
	}
	switch {
	case delay <= most && a.gate.room.enter():
		a.delay = delay
		return 0
	case within:
		return delay
	}
	return AfterWait(delay, a.MaxDelay)
}

// AfterWait returns after how long a request whose delay is longer than most may come
// again.
func AfterWait(delay, most time.Duration) time.Duration { return max(delay-most, time.Second) }

// Delayed reports whether the request that was allowed has to wait.
func (a *Admission) Delayed() bool { return a.delay > 0 }

// AwaitDelay holds an allowed request back for its delay. If ctx ends first it gives back what
// was charged, and returns the context's error.
func (a *Admission) AwaitDelay(ctx context.Context) error {
	if a.delay == 0 {
		return nil
	}
	defer a.leaveRoom()
	if !backoff.Sleep(ctx, a.delay) {
		a.Cancel(ctx)
		return ctx.Err()
	}
	return nil
}

// leaveRoom leaves the gate's room.
func (a *Admission) leaveRoom() {
	if a.delay > 0 {
		a.delay = 0
		a.gate.room.leave()
	}
}

// NotePassed notes that the request goes on now, for observers of how it ends.
func (a *Admission) NotePassed() {
	if a.gate.Limiter.WantsResults() {
		a.passed = time.Now()
	}
}

// Cancel gives back all that was charged, permits too.
func (a *Admission) Cancel(ctx context.Context) {
	a.leaveRoom()
	a.stopRenewal()
	a.permits = a.permits[:0]
	a.callDetached(ctx, "refund failed", func(ctx context.Context) error { return a.gate.Limiter.Cancel(ctx, &a.Req) })
}

// NeedsFinish reports whether there is something to do when the request is over.
func (a *Admission) NeedsFinish() bool { return len(a.permits) > 0 || a.Unsettled() }

// Unsettled reports whether it must be known how the request ended: its charge is
// adjusted by it, or an observer learns of it.
func (a *Admission) Unsettled() bool { return !a.passed.IsZero() || a.Req.NeedsResult() }

// Adjust corrects the charge by how the request ended, and notifies observers. There is
// no response where the client has gone.
func (a *Admission) Adjust(ctx context.Context, res weir.Result) {
	if res.Code == weir.NoAnswer && errors.Is(ctx.Err(), context.Canceled) {
		res.Code = weir.ClientGone
	}
	if !a.passed.IsZero() {
		end := res
		end.Duration = time.Since(a.passed)
		a.passed = time.Time{}
		a.gate.Limiter.End(&a.Req, end)
	}
	if a.Req.NeedsResult() {
		a.callDetached(ctx, "adjusting a charge failed", func(ctx context.Context) error { return a.gate.Limiter.Adjust(ctx, &a.Req, res) })
	}
}

// callDetached makes a call to the store that outlives the request, and logs its error.
func (a *Admission) callDetached(ctx context.Context, failed string, call func(context.Context) error) {
	ctx, stop := detachContext(ctx)
	defer stop()
	if err := call(ctx); err != nil {
		a.gate.Faults.Report(failed, err)
	}
}

// Finish ends the request: it adjusts its charge, releases its permits and empties a.
func (a *Admission) Finish(ctx context.Context, res weir.Result) {
	a.Adjust(ctx, res)
	a.Release(ctx)
	a.End()
}

// End empties a for its next use.
func (a *Admission) End() {
	a.leaveRoom()
	a.Req.Reset()
	a.gate, a.passed = nil, time.Time{}
}

// leastRenewal is the shortest interval at which permits are renewed.
const leastRenewal = 10 * time.Millisecond

// holdPermits renews the permits that the last decision granted until Release.
func (a *Admission) holdPermits(ctx context.Context) {
	period := weir.Forever
	for _, o := range a.Req.Ops() {
		if o.Charged && o.Limit.Traits()&weir.Leases != 0 {
			// Each on its own account: one that was lost must not take the others
			// with it.
			a.permits = append(a.permits, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always})
			period = min(period, o.Limit.Period)
		}
	}
	if len(a.permits) > 0 {
		a.renewal = startRenewal(context.WithoutCancel(ctx), a.gate, a.permits, max(period/3, leastRenewal))
	}
}

// Release gives the permits back. It asks no rules, which may have changed since they
// were granted.
func (a *Admission) Release(ctx context.Context) {
	a.stopRenewal()
	if len(a.permits) == 0 {
		return
	}
	for i := range a.permits {
		a.permits[i] = a.permits[i].Undo(a.permits[i].Cost)
		a.permits[i].NewLease = true
	}
	a.callDetached(ctx, "releasing a permit failed", func(ctx context.Context) error {
		_, err := a.gate.Limiter.Apply(ctx, a.permits)
		return err
	})
	a.permits = a.permits[:0]
}

func (a *Admission) stopRenewal() {
	if a.renewal != nil {
		a.renewal.stop()
		a.renewal = nil
	}
}
