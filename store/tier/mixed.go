package tier

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Where an op is decided.
type place uint8

const (
	onShared place = iota
	onNode
	onLease
	anywhere // it is denied already
)

// place returns where an op is decided.
func (s *Store) place(o *weir.Op) place {
	if o.Role == weir.Deny {
		return anywhere
	}
	p, err := s.plans.of(o.Limit)
	switch {
	case err != nil:
	case p.mode == params.ConsistencyLocal:
		return onNode
	case o.Limit.Traits()&weir.Leases != 0:
		if p.slots != nil && o.Cost > 0 && o.Headroom == 0 && (o.Role == weir.Enforce && o.Verb <= weir.Peek ||
			(o.Role == weir.Shadow || o.Role == weir.Always) && o.Verb == weir.Spend) || o.Verb == weir.Refund && (p.slots != nil || s.holdsSlot(o)) {
			return onLease
		}
		return onShared
	case (p.mode == params.ConsistencyLeased || p.mode == params.ConsistencyEventual) && o.Cost > 0 && o.Headroom == 0 && !o.Penalize &&
		(o.Role == weir.Enforce && o.Verb <= weir.Peek || o.Role == weir.Shadow && o.Verb == weir.Spend || o.Role != weir.Ban && o.Verb == weir.Refund):
		return onLease
	}
	return onShared
}

// A mix is room for the parts of a request that is decided in several places.
type mix struct {
	local, shared     []weir.Op
	localOf, sharedOf []int // which op of the request each stands for
	// back are the refunds of limits that are counted on the node, in the order of the
	// request, as backOf are.
	back   []weir.Op
	backOf []int
	// refunds: the node carries out some, of leases or its own.
	refunds bool
	undo    []weir.Op
	// renewed are the ops whose holders had their place before: it stays theirs.
	renewed []int
}

// takeMixed decides ops of which some are spent from leases, some are counted on
// the node and some on the shared store, all or none: the node's parts first, the
// shared one last. When that refuses, the others are given back: another request
// may be refused for their sake meanwhile, none is admitted too many. (What is
// given back to a lockout does not shorten its run, and a sketch takes nothing
// back.)
//
// Refunds on the node are carried out when all that must allow has allowed: nobody
// could take them back. Refunds of units that the node does not hold go along in
// the call of the shared store, which charges all or none.
func (s *Store) takeMixed(ctx context.Context, ops []weir.Op) error {
	m := s.mixes.Get().(*mix)
	defer s.mixes.Put(m)
	m.renewed = m.renewed[:0]
	m.split(s, ops)
	switch {
	case m.refunds:
		// A caller that goes must not leave them behind: they are of no use to anybody
		// once the shared store has counted that they were carried out.
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx = s.link.Detach(ctx)
	case len(m.shared) > 0 || !s.warmAll(ops):
		ctx = s.link.Begin(ctx)
	}
	if refused, err := s.takeLeases(ctx, m, ops, onlyEnforced); err != nil || refused != nil {
		if err == nil {
			err = s.refuseMixed(ctx, m, ops, true, true, *refused)
		}
		return joinUndo(err, s.giveBackLeases(m, ops))
	}
	if len(m.local) > 0 {
		if err := s.takeLocal(ctx, m.local); err != nil {
			return joinUndo(err, s.giveBackLeases(m, ops))
		}
		if d := weir.Fold(m.local); !d.Allowed() {
			err := s.giveBackLeases(m, ops)
			return joinUndo(s.refuseMixed(ctx, m, ops, false, true, d), err)
		}
	}
	if len(m.shared) > 0 {
		if err := s.takeShared(ctx, m.shared); err != nil {
			return joinUndo(err, s.giveBack(m, ops))
		}
		if d := weir.Fold(m.shared); !d.Allowed() {
			err := s.giveBack(m, ops)
			return joinUndo(s.refuseMixed(ctx, m, ops, true, false, d), err)
		}
	}
	m.answer(ops)
	// Nobody hears a shadow: it is tried when all is said.
	if _, err := s.takeLeases(ctx, m, ops, onlyShadows); err != nil {
		return joinUndo(err, s.giveBackAllOf(m, ops))
	}
	return s.refundHeld(m, ops)
}

// refundHeld carries out the refunds that the node decides. It calls no other store
// and does not fail but by an error of the node's own store.
func (s *Store) refundHeld(m *mix, ops []weir.Op) error {
	for i := range ops {
		if o := &ops[i]; o.Verb == weir.Refund && s.place(o) == onLease && !m.inShared(i) {
			s.refundOnNode(o)
		}
	}
	if len(m.back) == 0 {
		return nil
	}
	// What was admitted stands, whatever becomes of the caller.
	if err := s.takeLocal(context.Background(), m.back); err != nil {
		return err
	}
	copyAnswers(ops, m.back, m.backOf)
	return nil
}

// inShared reports whether the i-th op of the request goes to the shared store.
func (m *mix) inShared(i int) bool {
	_, found := slices.BinarySearch(m.sharedOf, i)
	return found
}

// warmAll reports whether the node holds units for all that is spent from leases:
// nothing will be waited for then, and no budget begins.
func (s *Store) warmAll(ops []weir.Op) bool {
	for i := range ops {
		if o := &ops[i]; s.place(o) == onLease && !s.isWarm(s.tag(o.Key, o.Limit), o) {
			return false
		}
	}
	return true
}

func joinUndo(err, undo error) error {
	switch {
	case err == nil:
		return undo
	case undo != nil:
		return fmt.Errorf("%w (and giving back what the node has charged failed: %w)", err, undo)
	}
	return err
}

// split sorts ops by where they are decided. What is denied already is told to
// both stores.
func (m *mix) split(s *Store, ops []weir.Op) {
	m.local, m.shared, m.localOf, m.sharedOf = m.local[:0], m.shared[:0], m.localOf[:0], m.sharedOf[:0]
	m.back, m.backOf, m.refunds = m.back[:0], m.backOf[:0], false
	for i := range ops {
		o := &ops[i]
		where := s.place(o)
		// A pool goes with its own share: Resolve reads them as a pair.
		if o.Role == weir.Pool && i > 0 {
			where = s.place(&ops[i-1])
		}
		if where == onLease && o.Verb == weir.Refund && !s.holdsCharge(o) {
			where = onShared
		}
		if where == onLease || where == onNode && o.Verb == weir.Refund {
			o.Decision, o.Now, o.Charged, o.Borrowed = weir.Decision{}, s.wall(), false, false
			m.refunds = m.refunds || o.Verb == weir.Refund
			if where == onNode {
				m.back, m.backOf = append(m.back, *o), append(m.backOf, i)
			}
			continue
		}
		if where != onShared {
			m.local, m.localOf = append(m.local, *o), append(m.localOf, i)
		}
		if where != onNode {
			m.shared, m.sharedOf = append(m.shared, *o), append(m.sharedOf, i)
		}
	}
}

// Which of the ops of leases are decided.
const onlyEnforced, onlyShadows = false, true

// takeLeases decides those spends and looks that are decided by leases, those of
// shadows or the others, and stops at the first refusal, which it returns.
func (s *Store) takeLeases(ctx context.Context, m *mix, ops []weir.Op, shadows bool) (*weir.Decision, error) {
	for i := range ops {
		o := &ops[i]
		if (o.Role == weir.Shadow) != shadows || o.Verb == weir.Refund || s.place(o) != onLease {
			continue
		}
		renewed, err := s.takeLease(ctx, o)
		if err != nil {
			return nil, err
		}
		if renewed {
			m.renewed = append(m.renewed, i)
		}
		if o.Role == weir.Enforce && o.Verb == weir.Spend && !o.Decision.Allowed() {
			return &o.Decision, nil
		}
	}
	return nil, nil
}

// answer copies the answers of both stores to ops.
func (m *mix) answer(ops []weir.Op) {
	copyAnswers(ops, m.local, m.localOf)
	copyAnswers(ops, m.shared, m.sharedOf)
}

// copyAnswers copies the answers of a part of a request, of which the j-th op is the
// of[j]-th of the request.
func copyAnswers(ops, part []weir.Op, of []int) {
	for j, i := range of {
		a, o := &part[j], &ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
	}
}

// giveBack undoes what was spent from leases and charged on the node, also for a
// caller that has gone. What a lease said stands as what it would have said.
func (s *Store) giveBack(m *mix, ops []weir.Op) error {
	failed := s.giveBackLeases(m, ops)
	if m.undone(m.local); len(m.undo) > 0 {
		failed = joinUndo(failed, s.local.Take(context.Background(), m.undo))
	}
	return failed
}

// undone fills undo with what gives back the charges of part, which is taken as not
// charged from then on.
func (m *mix) undone(part []weir.Op) {
	m.undo = m.undo[:0]
	for i := range part {
		if o := &part[i]; o.Charged && o.Verb != weir.Refund && o.Limit.Traits()&weir.Sketches == 0 {
			m.undo = append(m.undo, rollback(o))
		}
		part[i].Charged, part[i].Borrowed = false, false
	}
}

// giveBackAllOf is giveBack for a request that the shared store has charged already.
// The store is told in the background.
func (s *Store) giveBackAllOf(m *mix, ops []weir.Op) error {
	err := s.giveBack(m, ops)
	m.undone(m.shared)
	for i := range m.undo {
		// A permit may have been the holder's before, unless its name is new: it ends by
		// itself.
		if o := &m.undo[i]; o.Limit.Traits()&weir.Leases == 0 || o.NewLease {
			s.returnLater(o)
		}
	}
	m.answer(ops)
	return err
}

// giveBackLeases undoes what was spent from leases. It does not call the shared
// store: what the node holds no longer is given back in the background.
func (s *Store) giveBackLeases(m *mix, ops []weir.Op) error {
	var failed error
	for i := range ops {
		o := &ops[i]
		if !o.Charged || o.Verb != weir.Spend || s.place(o) != onLease {
			continue
		}
		o.Charged = false
		if slices.Contains(m.renewed, i) {
			continue
		}
		undo := rollback(o)
		if !o.Decision.Degraded() {
			s.refundOnNode(&undo)
		} else if err := s.oneAway(context.Background(), &undo, transport.ErrOpen); err != nil {
			failed = err
		}
	}
	return failed
}

// refuseMixed answers a request that was refused by d. Where the stores, if they
// are to be told, hold nothing that is charged for refusals, they are not asked
// and their ops stay without an answer.
func (s *Store) refuseMixed(ctx context.Context, m *mix, ops []weir.Op, local, shared bool, d weir.Decision) error {
	var errs error
	if local {
		errs = refusePart(ctx, m.local, d, s.takeLocal)
	}
	if shared {
		errs = joinUndo(refusePart(ctx, m.shared, d, s.takeShared), errs)
	}
	m.answer(ops)
	return errs
}

// refusePart lets a store charge what is charged because the request was refused.
func refusePart(ctx context.Context, part []weir.Op, d weir.Decision, take func(context.Context, []weir.Op) error) error {
	charges := false
	for i := range part {
		o := &part[i]
		charges = charges || o.Role == weir.Ban || o.Penalize
		o.Decision, o.Charged, o.Borrowed = clearAnswer(o), false, false
	}
	if !charges {
		return nil
	}
	refusal := weir.Op{Limit: d.Limit, Role: weir.Deny, Decision: weir.Decision{RetryAfter: math.MaxInt64}}
	told := append(part, refusal)
	if err := take(ctx, told); err != nil {
		return err
	}
	copy(part, told)
	return nil
}

// rollback returns the op that gives back what o has charged a moment ago. What has
// flowed into a bucket since is left out of account, or requests that are refused
// would use up a fast one.
func rollback(o *weir.Op) weir.Op {
	undo := o.Undo(o.Cost)
	undo.ChargedAt = 0
	return undo
}
