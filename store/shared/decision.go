package shared

import (
	"context"
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/lot"
)

// A decision is a request under way. It is used again for another when it has ended.
type decision struct {
	*Store
	ctx context.Context // a Budget once something is waited for
	ops []weir.Op       // the caller's
	of  []*policy       // of each op, nil if it is denied already
	at  []route
	// holds note what was drawn for each op.
	holds          []lot.Hold
	onNode, stored part
	one            [1]weir.Op
}

// A route is where an op is decided, and in which phase.
type route uint8

const (
	denied       route = iota // nowhere; both stores are to know of it
	byStore                   // phase 3
	byNode                    // phase 2
	byDecider                 // phase 2, or 3 if the decider asks
	refundByNode              // phase 4
	refundToLot               // phase 4
	shadowOfLot               // phase 4
	routes
)

// A part is the ops of a request that go to one store.
type part struct {
	ops []weir.Op
	of  []*policy
	at  []int // the index of each op in the request
}

func (p *part) reset() { p.ops, p.of, p.at = p.ops[:0], p.of[:0], p.at[:0] }

func (p *part) add(o *weir.Op, of *policy, i int) {
	p.ops, p.of, p.at = append(p.ops, *o), append(p.of, of), append(p.at, i)
}

// answer copies the answers of a part to the request.
func (p *part) answer(ops []weir.Op) {
	for j, i := range p.at {
		if i == len(ops) {
			continue // it stands for the refusal of the whole
		}
		a, o := &p.ops[j], &ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
	}
}

// take decides a request: phases 0 to 4 in order. What is charged is undone where a later
// phase refuses or fails.
func (d *decision) take(ctx context.Context, ops []weir.Op) error {
	n, err := d.sortOps(ctx, ops)
	if err != nil || len(ops) == 0 {
		return err
	}
	drawn := n[byDecider] + n[shadowOfLot] + n[refundToLot]
	switch {
	case len(ops) == 1 && d.of[0] != nil && d.of[0].decider != nil:
		v := lot.Ask
		if d.of[0].canDraw(&ops[0]) {
			ctx, v, err = d.draw(ctx, d.of[0], &ops[0], d.holdOf(0))
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
		d.ctx = d.queue.Detach(ctx)
	case drawn > 0 && n[byStore] > 0:
		d.ctx = d.queue.Begin(ctx)
	}
	d.split(n[byNode] > 0, n[byStore] > 0)
	if refusal, ok := d.recall(); ok {
		return d.refuse(refusal, true, false)
	}
	if refused, err := d.drawAll(byDecider); err != nil || refused != nil {
		if err == nil {
			err = d.refuse(*refused, true, true)
		}
		return errors.Join(err, d.undo(false, false))
	}
	if len(d.onNode.ops) > 0 {
		err := d.takeLocal(d.ctx, d.onNode.ops)
		if a := weir.Fold(d.onNode.ops); err != nil || !a.Allowed() {
			return d.end(err, a, false)
		}
	}
	if len(d.stored.ops) > 0 {
		err := d.ask(d.stored.ops, d.stored.of)
		if a := weir.Fold(d.stored.ops); err != nil || !a.Allowed() {
			return d.end(err, a, true)
		}
	}
	d.onNode.answer(ops)
	d.stored.answer(ops)
	if _, err := d.drawAll(shadowOfLot); err != nil {
		return errors.Join(err, d.undo(true, true))
	}
	return d.refund()
}

// takeOne decides one op that stands alone, and that its policy's decider may know, but for
// what a draw decides: err is why one that waited for units got none. The slice is the
// caller's.
func (d *decision) takeOne(ctx context.Context, ops []weir.Op, p *policy, err error) error {
	o := &ops[0]
	switch {
	case err != nil:
		return d.outage.Decide(ctx, ops, err)
	case o.Verb == weir.Refund && p.decider.Refund(d.clock.Now(), o):
		return nil
	case o.Verb == weir.Refund && p.holds():
		ctx = d.queue.Detach(ctx) // it is carried out though the caller leaves
	}
	d.ctx, d.of = ctx, append(d.of[:0], p)
	return d.ask(ops, d.of)
}

// sortOps is phase 0: it checks the ops, finds where each is decided, and counts them by that.
func (d *decision) sortOps(ctx context.Context, ops []weir.Op) (n [routes]int, err error) {
	d.ctx, d.ops, d.of, d.at = ctx, ops, d.of[:0], d.at[:0]
	for i := range ops {
		p, err := d.check(&ops[i])
		if err != nil {
			return n, err
		}
		at := d.routeOf(&ops[i], p)
		if ops[i].Role == weir.Pool && i > 0 {
			at = d.at[i-1] // with the share that borrows from it: they are resolved as a pair
		}
		d.of, d.at = append(d.of, p), append(d.at, at)
		n[at]++
	}
	return n, nil
}

// check returns the policy of an op, nil if it is denied, and an error for what no store
// can decide.
func (s *Store) check(o *weir.Op) (*policy, error) {
	if o.Role == weir.Deny {
		return nil, nil
	}
	p, err := s.policies.of(o.Limit)
	t := o.Limit.Traits()
	switch {
	case err != nil:
		return nil, err
	case uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost:
		return nil, weir.ErrCost
	case t&weir.Leases != 0 && o.ID == 0 && o.Verb != weir.Peek:
		return nil, weir.ErrNoLease
	case t&weir.Sketches != 0 && o.Verb == weir.Refund:
		return nil, weir.ErrRefund
	}
	return p, nil
}

func (d *decision) routeOf(o *weir.Op, p *policy) route {
	switch {
	case p == nil:
		return denied
	case p.decider == nil && o.Verb == weir.Refund:
		return refundByNode
	case p.decider == nil:
		return byNode
	case o.Verb == weir.Refund && o.Cost > 0 && p.decider.Holds(d.clock.Now(), o):
		return refundToLot
	case !p.holds() || !p.canDraw(o):
		return byStore
	case o.Role == weir.Shadow:
		return shadowOfLot
	}
	return byDecider
}

// split fills the parts of the stores that have ops. What is denied already goes to each of
// them, and at least to the node's.
func (d *decision) split(onNodeToo, onStoreToo bool) {
	d.onNode.reset()
	d.stored.reset()
	now := int64(d.clock.Latest(d.clock.Now()))
	for i := range d.ops {
		o, at := &d.ops[i], d.at[i]
		if at == byNode || at == denied && (onNodeToo || !onStoreToo) {
			d.onNode.add(o, d.of[i], i)
		}
		if at == byStore || at == denied && onStoreToo {
			d.stored.add(o, d.of[i], i)
		}
		if at > byNode {
			o.Decision, o.Now, o.Charged, o.Borrowed = weir.Decision{}, now, false, false
		}
	}
}
