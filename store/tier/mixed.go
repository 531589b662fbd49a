package tier

import (
	"context"
	"fmt"
	"math"

	"github.com/weirlimit/weir"
)

// Where an op is decided.
type place uint8

const (
	onShared place = iota
	onNode
	anywhere // it is denied already
)

// place returns where an op is decided.
func (s *Store) place(o *weir.Op) place {
	if o.Role == weir.Deny {
		return anywhere
	}
	if p, err := s.plans.of(o.Limit); err == nil && p.mode == weir.ConsistencyLocal {
		return onNode
	}
	return onShared
}

// A mix is room for the parts of a request that is decided in two places.
type mix struct {
	local, shared     []weir.Op
	localOf, sharedOf []int // which op of the request each stands for
	undo              []weir.Op
}

// takeMixed decides ops of which some are counted on the node and some on the
// shared store, all or none: the node's part first, the shared one last. When the
// latter refuses, the former is given back: another request may be refused for
// its sake meanwhile, none is admitted too many. (What is given back to a lockout
// does not shorten its run, and a sketch takes nothing back.)
func (s *Store) takeMixed(ctx context.Context, ops []weir.Op) error {
	m := s.mixes.Get().(*mix)
	defer s.mixes.Put(m)
	m.split(s, ops)
	if err := s.takeLocal(ctx, m.local); err != nil {
		return err
	}
	if !passes(m.local) {
		return s.refuseMixed(ctx, m, ops, m.shared, m.sharedOf, m.local)
	}
	if err := s.takeShared(ctx, m.shared); err != nil {
		return joinUndo(err, s.giveBack(ctx, m))
	}
	if passes(m.shared) {
		m.answer(ops)
		return nil
	}
	if err := s.giveBack(ctx, m); err != nil {
		return err
	}
	return s.refuseMixed(ctx, m, ops, m.local, m.localOf, m.shared)
}

func joinUndo(err, undo error) error {
	if undo != nil {
		return fmt.Errorf("%w (and giving back what the node counts failed: %w)", err, undo)
	}
	return err
}

// split sorts ops by where they are decided. What is denied already is told to
// both.
func (m *mix) split(s *Store, ops []weir.Op) {
	m.local, m.shared, m.localOf, m.sharedOf = m.local[:0], m.shared[:0], m.localOf[:0], m.sharedOf[:0]
	for i := range ops {
		where := s.place(&ops[i])
		// A pool goes with its own share: Settle reads them as a pair.
		if ops[i].Role == weir.Pool && i > 0 {
			where = s.place(&ops[i-1])
		}
		if where != onShared {
			m.local, m.localOf = append(m.local, ops[i]), append(m.localOf, i)
		}
		if where != onNode {
			m.shared, m.sharedOf = append(m.shared, ops[i]), append(m.sharedOf, i)
		}
	}
}

// passes reports whether a part of a request, settled on its own, passed.
func passes(part []weir.Op) bool { return weir.Fold(part).Allowed() }

// answer copies the answers of both parts to ops.
func (m *mix) answer(ops []weir.Op) {
	for _, part := range []struct {
		ops []weir.Op
		of  []int
	}{{m.local, m.localOf}, {m.shared, m.sharedOf}} {
		for j, i := range part.of {
			a, o := &part.ops[j], &ops[i]
			o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
		}
	}
}

// giveBack undoes what the node's part has charged.
func (s *Store) giveBack(ctx context.Context, m *mix) error {
	m.undo = m.undo[:0]
	for i := range m.local {
		if o := &m.local[i]; o.Charged && o.Verb != weir.Refund && o.Limit.Traits()&weir.Sketches == 0 {
			m.undo = append(m.undo, o.Undo(o.Cost))
		}
		m.local[i].Charged, m.local[i].Borrowed = false, false
	}
	if len(m.undo) == 0 {
		return nil
	}
	return s.local.Take(ctx, m.undo)
}

// refuseMixed answers a request that one part has refused. In the other, nothing
// is charged but what is charged for refusals; if there is none of that it is not
// asked.
func (s *Store) refuseMixed(ctx context.Context, m *mix, ops, other []weir.Op, of []int, by []weir.Op) error {
	charges := false
	for i := range other {
		o := &other[i]
		charges = charges || o.Role == weir.Ban || o.Penalize
		o.Decision, o.Charged, o.Borrowed = clearAnswer(o), false, false
	}
	if !charges {
		m.answer(ops)
		return nil
	}
	refusal := weir.Op{Limit: weir.Fold(by).Limit, Role: weir.Deny, Decision: weir.Decision{RetryAfter: math.MaxInt64}}
	told := append(other, refusal)
	take := s.takeShared
	if len(of) > 0 && len(m.local) > 0 && &other[0] == &m.local[0] {
		take = s.takeLocal
	}
	if err := take(ctx, told); err != nil {
		return err
	}
	copy(other, told)
	m.answer(ops)
	return nil
}
