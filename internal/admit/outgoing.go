package admit

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
)

// An Outgoing request is to be sent to another, under a key that names whose quota it
// spends.
type Outgoing struct {
	Admission
	Key string

	waiter  *Waiter
	refusal Refusal
}

// Refusal makes the error of a request that is not sent: the name of the limit that
// refused, empty when the key asked to be left alone, and the least wait after which the
// same request may be sent, or weir.Never.
type Refusal func(limit string, wait time.Duration) error

// AddHostDescriptor fills in the descriptor by which a request is limited unless an option says
// otherwise: its key, as host.
func (o *Outgoing) AddHostDescriptor() {
	o.Req.Descriptors = append(o.Req.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "host", Value: o.Key}}})
}

// SetCost sets the cost in units; 0 looks without spending.
func SetCost(r *weir.Request, cost int64) {
	if r.Cost = cost; cost == 0 {
		r.Verb = weir.Peek
	}
}

// AwaitTurn returns when the request may be sent: it waits for its limits, and while its key
// is to be left alone, for the gate's MaxDelay at most. Its error is one of refusal's,
// that of ctx, or an *[Undecided]; then nothing is charged.
func (o *Outgoing) AwaitTurn(ctx context.Context, refusal Refusal) error {
	o.refusal = refusal
	o.waiter = o.gate.room.NewWaiter(ctx, o.gate.maxDelay)
	defer o.waiter.Done()
	for {
		if err := o.awaitKey(); err != nil {
			return err
		}
		d, err := o.DecidePeek(ctx)
		switch {
		case err != nil:
			o.Req.Reset() // what the ops say was neither decided nor charged
			return &Undecided{reasonOf(ctx, err), err}
		case d.Allowed():
			if err = o.awaitDelay(); err == nil {
				err = o.awaitKey()
			}
			if err != nil {
				o.Cancel(ctx)
				return err
			}
			o.NotePassed()
			return nil
		}
		limit, wait := "", d.RetryAfter
		if d.Limit != nil {
			limit = d.Limit.Name
		}
		refused := o.refusal(limit, wait)
		if wait == weir.Never {
			return refused
		}
		if d.Limit != nil && d.Limit.Traits()&weir.Leases != 0 {
			wait = o.waiter.PermitDelay(wait)
		}
		if err := o.waiter.Sleep(wait, refused); err != nil {
			return err
		}
	}
}

// awaitKey waits until the key is no longer to be left alone.
func (o *Outgoing) awaitKey() error {
	for {
		left := o.gate.paused.Left(o.Key, time.Now())
		if left == 0 {
			return nil
		}
		if err := o.waiter.Sleep(left, o.refusal("", left)); err != nil {
			return err
		}
	}
}

// awaitDelay waits as long as the limits that delay say.
func (o *Outgoing) awaitDelay() error {
	delay := o.Req.Delay()
	if delay == 0 {
		return nil
	}
	limit := ""
	for _, op := range o.Req.Ops() {
		if op.Role == weir.Enforce && op.Decision.Delay(op.Cost) == delay {
			limit = op.Limit.Name
		}
	}
	return o.waiter.Sleep(delay, o.refusal(limit, delay))
}

// PauseKey leaves key alone for wait, as a response asked.
func (g *Gate) PauseKey(key string, wait time.Duration) {
	if g.maxPause > 0 {
		g.paused.Add(key, time.Now(), min(wait, g.maxPause))
	}
}
