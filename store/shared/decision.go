package shared

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
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

// sortOps is phase 0: it checks the ops, finds where each is decided, and counts them by that.
func (d *decision) sortOps(ctx context.Context, ops []weir.Op) (n [routes]int, err error) {
	d.ctx, d.ops, d.of, d.at = ctx, ops, d.of[:0], d.at[:0]
	for i := range ops {
		p, err := d.policyOfOp(&ops[i])
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

// policyOfOp returns the policy of an op, nil if it is denied, and an error for what no store
// can decide.
func (s *Store) policyOfOp(o *weir.Op) (*policy, error) {
	if o.Role == weir.Deny {
		return nil, nil
	}
	p, err := s.policies.forLimit(o.Limit)
	t := o.Limit.Traits()
	switch {
	case err != nil:
		return nil, err
	case transport.CheckCost(o) != nil:
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
	case !p.mayHoldUnits() || !p.canDraw(o):
		return byStore
	case o.Role == weir.Shadow:
		return shadowOfLot
	}
	return byDecider
}

// askWhole has refunds go along where the store is asked anyway: what decides whether they
// are made, as a mark does, is then done with them or not at all. With the mark of a call that
// is charged once so does all else: units that the node holds would be spent, or kept, when
// the answer of the store is lost. It returns once.ErrUnsupported where no call of the store
// can decide all.
func (d *decision) askWhole(n *[routes]int) error {
	isOnce := false
	for i, at := range d.at {
		isOnce = isOnce || at == byStore && d.of[i].isMark && d.ops[i].Role == weir.Enforce
	}
	for i, at := range d.at {
		switch {
		case at == refundToLot, isOnce && (at == byDecider || at == shadowOfLot):
			d.at[i] = byStore
			n[byStore]++
			n[at]--
		case isOnce && (at == byNode || at == refundByNode):
			return fmt.Errorf("%w: each node counts limit %q alone", once.ErrUnsupported, d.ops[i].Limit.Name)
		case isOnce && at == byStore && d.queue.Repeater.PartOfKey(d.ops[i].Key) != d.queue.Repeater.PartOfKey(d.ops[0].Key):
			return fmt.Errorf("%w: its limits are counted by different servers, or in different slots of a cluster", once.ErrUnsupported)
		}
	}
	if isOnce && d.nodes.countsOnly.Load() {
		return fmt.Errorf("%w: the store cannot remember it", once.ErrUnsupported)
	}
	return nil
}

// splitOps fills the parts of the stores that have ops. What is denied already goes to each of
// them, and at least to the node's.
func (d *decision) splitOps(onNodeToo, onStoreToo bool) {
	d.onNode.reset()
	d.stored.reset()
	now := int64(d.clock.Latest(d.clock.Now()))
	for i := range d.ops {
		o, at := &d.ops[i], d.at[i]
		if at == byNode || at == denied && (onNodeToo || !onStoreToo) {
			d.onNode.appendOp(o, d.of[i], i)
		}
		if at == byStore || at == denied && onStoreToo {
			d.stored.appendOp(o, d.of[i], i)
		}
		if at > byNode {
			o.Answer = weir.Answer{Now: now}
		}
	}
}

// holdOf returns what notes the draw of the i-th op.
func (d *decision) holdOf(i int) *lot.Hold {
	for len(d.holds) <= i {
		d.holds = append(d.holds, lot.Hold{})
	}
	d.holds[i].Parts = d.holds[i].Parts[:0]
	return &d.holds[i]
}
