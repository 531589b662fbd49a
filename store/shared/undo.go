package shared

import (
	"context"
	"errors"
	"math"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

// abortRequest undoes a request that a store has refused by a, or could not decide because of err:
// the shared store, or the node's.
func (d *decision) abortRequest(err error, a weir.Decision, byStore bool) error {
	undo := d.undoCharges(byStore, !byStore)
	if err == nil {
		err = d.refuseRequest(a, byStore, !byStore)
	}
	return errors.Join(err, undo)
}

// refuseRequest answers a request that was refused by a. Of the stores that are to know, those are
// asked that hold something which is charged for refusals; ops of the others stay without
// an answer.
func (d *decision) refuseRequest(a weir.Decision, onNode, stored bool) (errs error) {
	refusal := weir.Op{Limit: a.Limit, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{RetryAfter: math.MaxInt64}}}
	if onNode && d.onNode.chargesRefusals() {
		d.onNode.appendOp(&refusal, nil, len(d.ops))
		errs = d.takeLocal(d.ctx, d.onNode.ops)
	}
	if stored && d.stored.chargesRefusals() {
		d.stored.appendOp(&refusal, nil, len(d.ops))
		errs = errors.Join(d.askStore(d.stored.ops, d.stored.of), errs)
	}
	d.onNode.copyAnswers(d.ops)
	d.stored.copyAnswers(d.ops)
	return errs
}

// undoCharges undoes what was drawn, and what the node's store and the shared one have charged,
// also for a caller that has left; the shared one is told in the background. What a
// decider said stands as what it would have said.
func (d *decision) undoCharges(onNode, stored bool) (failed error) {
	for i := range d.ops {
		o := &d.ops[i]
		switch {
		case d.at[i] != byDecider && d.at[i] != shadowOfLot || !o.Charged:
			continue
		case o.Decision.Degraded() && len(d.holds[i].Parts) == 0: // else it was drawn from another server's units
			d.one[0] = transport.Rollback(o)
			failed = errors.Join(failed, d.outage.DecideOps(context.Background(), d.one[:], transport.ErrOpen))
		default:
			d.of[i].decider.Undo(d.clock.Now(), &d.holds[i])
		}
		o.Answer = weir.Answer{Decision: o.Decision, Now: o.Now}
	}
	if onNode {
		if back := d.onNode.rollback(); len(back) > 0 {
			failed = errors.Join(failed, d.local.Take(context.Background(), back))
		}
	}
	if !stored {
		return failed
	}
	for _, o := range d.stored.rollback() {
		// A permit may have been the holder's before, unless its name is new: it ends by itself.
		if o.Limit.Traits()&weir.Leases == 0 || o.NewLease {
			d.returnUnits(&o)
		}
	}
	d.onNode.copyAnswers(d.ops)
	d.stored.copyAnswers(d.ops)
	return failed
}

// refundOps is phase 4 but for the shadows: all that must allow has allowed.
func (d *decision) refundOps() error {
	d.onNode.reset()
	for i := range d.ops {
		switch o := &d.ops[i]; d.at[i] {
		case refundToLot:
			if !d.of[i].decider.Refund(d.clock.Now(), o) {
				d.returnUnits(o)
			}
		case refundByNode:
			d.onNode.appendOp(o, d.of[i], i)
		}
	}
	if len(d.onNode.ops) == 0 {
		return nil
	}
	// What was admitted stands, whatever becomes of the caller.
	err := d.takeLocal(context.Background(), d.onNode.ops)
	if err == nil {
		d.onNode.copyAnswers(d.ops)
	}
	return err
}

// returnUnits answers a refund and has the store get the units back in the background.
func (s *Store) returnUnits(o *weir.Op) {
	b := lot.ReturnOf(o, o.Cost)
	if o.NewLease {
		b.Expiry = s.clock.Now().Add(micros.Of(o.Limit.Period))
	}
	s.returns.AddReturn(b)
	s.maintenance.hurryReturns()
	o.Answer = weir.Answer{Decision: weir.Decision{Limit: o.Limit}, Now: int64(s.clock.Latest(s.clock.Now())), Charged: true}
}
