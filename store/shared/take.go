package shared

import (
	"context"
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/lot"
)

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	switch {
	case uint64(cost) > weir.MaxCost:
		return weir.Decision{}, weir.ErrCost
	case s.closed.Load():
		return weir.Decision{}, weir.ErrClosed
	}
	p, err := s.policies.forLimit(l)
	switch {
	case err != nil:
		return weir.Decision{}, err
	case l.Traits()&weir.Leases != 0 && cost > 0:
		return weir.Decision{}, weir.ErrNoLease
	case p.decider == nil:
		d, err := s.local.TakeOne(ctx, key, l, cost)
		return relabel(d, l), err
	}
	o, v := weir.Op{Key: key, Limit: l, Cost: cost}, lot.Ask
	if cost > 0 {
		ctx, v, err = s.drawUnits(ctx, p, &o, nil)
	}
	if v != lot.Ask {
		return o.Decision, nil
	}
	d := s.decisions.Get().(*decision)
	d.one[0] = o
	err = d.takeOne(ctx, d.one[:], p, err)
	a := d.one[0].Decision
	s.decisions.Put(d)
	if err != nil {
		return weir.Decision{}, err
	}
	return a, nil
}

// Take implements weir.Store.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	d := s.decisions.Get().(*decision)
	defer s.decisions.Put(d)
	return d.decideRequest(ctx, ops)
}

// decideRequest decides a request: phases 0 to 4 in order. What is charged is undone where a later
// phase refuses or fails.
func (d *decision) decideRequest(ctx context.Context, ops []weir.Op) error {
	n, err := d.sortOps(ctx, ops)
	if err != nil || len(ops) == 0 {
		return err
	}
	if n[byStore] > 0 {
		if err := d.askWhole(&n); err != nil {
			return err
		}
	}
	drawn := n[byDecider] + n[shadowOfLot] + n[refundToLot]
	switch {
	case len(ops) == 1 && d.of[0] != nil && d.of[0].decider != nil:
		v := lot.Ask
		if d.of[0].canDraw(&ops[0]) {
			ctx, v, err = d.drawUnits(ctx, d.of[0], &ops[0], d.holdOf(0))
		}
		if v != lot.Ask {
			return nil
		}
		return d.takeOne(ctx, ops, d.of[0], err)
	case drawn+n[byStore] == 0:
		return d.takeLocal(ctx, ops)
	case n[refundByNode]+n[refundToLot] > 0:
		// A caller who leaves must not leave the refunds behind: nobody makes them once the
		// store has counted that they were.
		if err := ctx.Err(); err != nil {
			return err
		}
		d.ctx = d.queue.DetachBudget(ctx)
	case drawn > 0 && n[byStore] > 0:
		d.ctx = d.queue.BeginBudget(ctx)
	}
	d.splitOps(n[byNode] > 0, n[byStore] > 0)
	if refusal, ok := d.recallRefusal(); ok {
		return d.refuseRequest(refusal, true, false)
	}
	if refused, err := d.drawAll(byDecider); err != nil || refused != nil {
		if err == nil {
			err = d.refuseRequest(refused.Decision, true, true)
		}
		return errors.Join(err, d.undoCharges(false, false))
	}
	last := len(d.stored.ops) > 0 && d.onNode.leavesTrace()
	if len(d.onNode.ops) > 0 {
		if a, err := d.takeNode(last); err != nil || !a.Allowed() {
			return d.abortRequest(err, a, false)
		}
	}
	if len(d.stored.ops) > 0 {
		err := d.askStore(d.stored.ops, d.stored.of)
		if a := weir.Fold(d.stored.ops); err != nil || !a.Allowed() {
			return d.abortRequest(err, a, true)
		}
	}
	if last {
		if a, err := d.takeNode(false); err != nil || !a.Allowed() {
			return d.abortRequest(err, a, false)
		}
	}
	d.onNode.copyAnswers(ops)
	d.stored.copyAnswers(ops)
	if _, err := d.drawAll(shadowOfLot); err != nil {
		return errors.Join(err, d.undoCharges(true, true))
	}
	return d.refundOps()
}

// takeOne decides one op that stands alone, and that its policy's decider may know, but for
// what a draw decides: err is why one that waited for units got none. The slice is the
// caller's.
func (d *decision) takeOne(ctx context.Context, ops []weir.Op, p *policy, err error) error {
	o := &ops[0]
	switch {
	case err != nil:
		return d.outage.DecideOps(ctx, ops, err)
	case o.Verb == weir.Refund && p.decider.Refund(d.clock.Now(), o):
		return nil
	case o.Verb == weir.Refund && p.mayHoldUnits():
		ctx = d.queue.DetachBudget(ctx) // it is carried out though the caller leaves
	}
	d.ctx, d.of = ctx, append(d.of[:0], p)
	return d.askStore(ops, d.of)
}
