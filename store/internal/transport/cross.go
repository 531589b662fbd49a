package transport

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// takePart decides ops of one part. It returns which of them renewed a permit that was held
// before; nil: none.
type takePart func(ctx context.Context, ops []weir.Op) (renewed []bool, err error)

// undoPart has ops of one part undo once what was charged a moment ago. If that goes on in
// the background, again is true, and end is called when it is over.
type undoPart func(ctx context.Context, ops []weir.Op, end func(err error)) (again bool, err error)

// crossing decides a request whose keys are in several parts. It charges one part after
// the other, and gives back when a later one refuses: so it may refuse too much for an
// instant, and never admits too much.
//
// Of what cannot be given back without a trace at most the part that comes last is charged
// at once; else all are looked at first. A refund of the request comes after all of that: it cannot be undone.
type crossing struct {
	ctx    context.Context
	env    *Env
	parts  Divider
	call   takePart
	undo   undoPart
	ops    []weir.Op
	all    []crossed // but those that refuse without being asked
	groups [][]*crossed
	ran    atomic.Bool // something of it may have been carried out, and was not given back
}

// crossed is an op on its way, and what came of it.
type crossed struct {
	*weir.Op
	isShare          bool // the op after this one is its pool
	fits             bool // it allows, by the last answer
	charged, renewed bool
	now              int64
	decision         weir.Decision
}

// maxRounds is how often a request is looked at and tried that others overtake between
// the two.
const maxRounds = 3

// decideAcrossParts decides ops whose keys are in several parts, all or nothing, by calls of one part
// each. The error is one of those, and says of all of the ops whether they may run.
func decideAcrossParts(ctx context.Context, env *Env, ops []weir.Op, parts Divider, call takePart, undo undoPart) (err error) {
	if err := parts.Check(ops); err != nil {
		return &Result{Outcome: Rejected, Err: err}
	}
	t, pass := &crossing{ctx: ctx, env: env, parts: parts, call: call, undo: undo, ops: ops, all: make([]crossed, 0, len(ops))}, true
	for i := range ops {
		if o := &ops[i]; o.Role == weir.Deny {
			pass = pass && (o.Decision.Allowed() || o.Verb == weir.Force || o.Verb == weir.Refund)
		} else {
			t.all = append(t.all, crossed{Op: o, isShare: i+1 < len(ops) && ops[i+1].Role == weir.Pool})
		}
	}
	t.groupByPart()
	switch {
	case t.isFree():
		err = t.takeEach()
	case pass && t.isSpendOnly():
		err = t.chargeFirst()
	default:
		err = t.lookFirst()
	}
	if err == nil {
		t.answerOps()
		return nil
	}
	if r, ok := errors.AsType[*Result](err); ok && t.ran.Load() {
		all := *r
		all.MayRun = true
		return &all
	}
	return err
}

// decidePart decides ops of one part.
func (t *crossing) decidePart(ctx context.Context, ops []weir.Op) (renewed []bool, err error) {
	renewed, err = t.call(ctx, ops)
	if (err == nil || MayRun(err)) && slices.ContainsFunc(ops, func(o weir.Op) bool { return o.Verb != weir.Peek }) {
		t.ran.Store(true)
	}
	return renewed, err
}

// groupByPart sorts the ops by part: those that cannot be given back without a trace come last.
func (t *crossing) groupByPart() {
	at := map[int]int{}
	for i := range t.all {
		a := &t.all[i]
		part := t.parts.Part(a.Key)
		j, ok := at[part]
		if !ok {
			j, t.groups = len(t.groups), append(t.groups, nil)
			at[part] = j
		}
		t.groups[j] = append(t.groups[j], a)
	}
	slices.SortStableFunc(t.groups, func(a, b []*crossed) int { return t.rankByTrace(a) - t.rankByTrace(b) })
}

// rankByTrace returns 1 if what g charges cannot be given back without a trace, else 0.
func (t *crossing) rankByTrace(g []*crossed) int {
	if slices.ContainsFunc(g, func(a *crossed) bool { return t.parts.LeavesTrace(a.Limit) }) {
		return 1
	}
	return 0
}

// isFree reports whether no op must allow, so that each part is charged on its own
// account: units that are given back, and costs that were incurred.
func (t *crossing) isFree() bool {
	return len(t.all) == len(t.ops) && !slices.ContainsFunc(t.all, func(a crossed) bool {
		return a.Role != weir.Always || a.Verb != weir.Refund && a.Verb != weir.Force
	})
}

// isSpendOnly reports whether all ops are spends that must allow, and can be given back.
func (t *crossing) isSpendOnly() bool {
	return t.rankByTrace(t.groups[max(len(t.groups)-2, 0)]) == 0 && !slices.ContainsFunc(t.all, func(a crossed) bool { return !IsSpend(a.Op) })
}

// copyOps returns the ops of a group as they are asked.
func copyOps(g []*crossed) []weir.Op {
	ops := make([]weir.Op, len(g))
	for i, a := range g {
		ops[i] = *a.Op
	}
	return ops
}

// askGroup decides ops, which are those of g, and takes over the answers.
func (t *crossing) askGroup(g []*crossed, ops []weir.Op) error {
	renewed, err := t.decidePart(t.ctx, ops)
	if err != nil {
		return err
	}
	for i, a := range g {
		o := &ops[i]
		a.now, a.fits, a.charged, a.decision = o.Now, o.Decision.Allowed(), o.Charged, o.Decision
		a.renewed = renewed != nil && renewed[i]
	}
	return nil
}

// takeEach charges the groups all at once. If one fails, what others were forced to
// charge is given back.
func (t *crossing) takeEach() (failed error) {
	calls := NewGroup(t.env)
	errs := make([]error, len(t.groups))
	for i, g := range t.groups {
		calls.Go(func() { errs[i] = t.askGroup(g, copyOps(g)) })
	}
	calls.Wait()
	for _, err := range errs {
		if failed == nil || MayRun(err) {
			failed = err
		}
	}
	if failed != nil {
		t.refundGroups(t.groups)
	}
	return failed
}

// chargeFirst charges spends that must all allow.
func (t *crossing) chargeFirst() error {
	for i, g := range t.groups {
		ops := copyOps(g)
		if err := t.askGroup(g, ops); err != nil {
			t.refundGroups(t.groups[:i])
			return err
		}
		if refuses(ops) {
			t.refundGroups(t.groups[:i])
			return t.peekGroups(i)
		}
	}
	return nil
}

// refuses reports whether ops were not charged since one of them does not allow.
func refuses(ops []weir.Op) bool {
	return slices.ContainsFunc(ops, func(o weir.Op) bool { return o.Role == weir.Enforce && o.Verb == weir.Spend && !o.Decision.Allowed() })
}

// peekGroups asks all groups what a Peek says, but one. An op has what those before it on the
// same counter leave.
func (t *crossing) peekGroups(but int) error {
	for i, g := range t.groups {
		if i == but {
			continue
		}
		ops := copyOps(g)
		TurnIntoPeeks(ops)
		for j := range ops {
			ops[j].Role = weir.Always
		}
		if err := t.askGroup(g, ops); err != nil {
			return err
		}
	}
	return nil
}

// refundGroups gives back what was charged in groups, once, and later where a part does not
// answer. What cannot be given back stays charged until it flows back by itself.
func (t *crossing) refundGroups(groups [][]*crossed) {
	ctx, isUndone := context.WithoutCancel(t.ctx), true
	for _, g := range groups {
		var ops []weir.Op
		for _, a := range g {
			isUndone = isUndone && (!a.charged || !a.renewed && a.Verb != weir.Refund)
			if a.charged && !a.renewed && a.Verb != weir.Refund {
				done := *a.Op
				done.Answer = weir.Answer{Decision: a.decision, Now: a.now}
				ops = append(ops, Rollback(&done))
			}
			a.charged = false
		}
		if len(ops) > 0 {
			end := func(err error) { t.parts.Undone(len(ops), err) }
			again, err := t.undo(ctx, ops, end)
			if !again {
				end(err)
			}
			isUndone = isUndone && (again || err == nil)
		}
	}
	if isUndone {
		t.ran.Store(false)
	}
}

// lookFirst looks at all ops, resolves them, and charges what is to be charged. If
// another request came between, it begins anew. After maxRounds it is refused as it was
// overtaken last, and charged what a refusal charges, which nobody overtakes.
func (t *crossing) lookFirst() error {
	for round := 0; ; round++ {
		if round < maxRounds {
			if err := t.peekGroups(-1); err != nil {
				return err
			}
		}
		for i := range t.all {
			a := &t.all[i]
			a.Answer = weir.Answer{Decision: a.decision}
		}
		if overtaken, err := t.chargeGroups(weir.Resolve(t.ops)); err != nil || !overtaken {
			return err
		}
	}
}

// chargeGroups charges the resolved ops, and reports whether one refuses now that was ready to
// allow. Then nothing is charged and the op is refused.
//
// Refunds come last, when all that must allow has. If one fails and may have been done,
// the rest stays charged, so that a caller who asks again, as the holder of a reservation
// does, does not get it twice.
func (t *crossing) chargeGroups(pass bool) (overtaken bool, err error) {
	last := -1 // the group that is asked last of those where something is charged
	for i, g := range t.groups {
		if slices.ContainsFunc(g, func(a *crossed) bool { return a.Charged && a.Verb != weir.Refund }) {
			last = i
		}
	}
	for i := range t.groups[:last+1] {
		// There all is decided in one call.
		overtaken, err := t.chargeGroup(i, pass, func(a *crossed) bool { return a.Verb != weir.Refund || i == last })
		if overtaken || err != nil {
			t.refundGroups(t.groups[:i])
			return overtaken, err
		}
	}
	done := last >= 0 && slices.ContainsFunc(t.groups[last], isRefund)
	for i := range t.groups {
		if i == last || !slices.ContainsFunc(t.groups[i], isRefund) {
			continue
		}
		_, err := t.chargeGroup(i, pass, isRefund)
		switch {
		case err == nil:
			done = true
		case !done && !MayRun(err):
			t.refundGroups(t.groups)
			return false, err
		default:
			t.parts.Undone(0, err)
			return false, err
		}
	}
	return false, nil
}

func isRefund(a *crossed) bool { return a.Charged && a.Verb == weir.Refund }

// chargeGroup charges those of the resolved ops of a group for which which is true, and
// reports whether one refuses now that was ready to allow: then none of them is charged
// and the op is refused.
func (t *crossing) chargeGroup(i int, pass bool, which func(*crossed) bool) (overtaken bool, err error) {
	var from []*crossed
	for _, a := range t.groups[i] {
		if a.Charged && which(a) {
			from = append(from, a)
		}
	}
	if len(from) == 0 {
		return false, nil
	}
	ops := copyOps(from)
	for j, a := range from {
		o := &ops[j]
		o.Penalize = false
		switch {
		case pass && a.carries():
			o.Role = weir.Enforce
		case a.Role != weir.Shadow:
			o.Role, o.Verb, o.Headroom = weir.Always, a.Commit(), 0
		}
	}
	renewed, err := t.decidePart(t.ctx, ops)
	if err != nil {
		return false, err
	}
	overtaken = pass && refuses(ops)
	for j, a := range from {
		switch o := &ops[j]; {
		case !overtaken:
			a.takeOver(o, renewed != nil && renewed[j])
		case o.Role == weir.Enforce && !o.Decision.Allowed():
			t.overtake(a, o.Decision)
		}
	}
	return overtaken, nil
}

// carries reports whether the request passes as this op has room: it must still have it.
func (a *crossed) carries() bool {
	return a.fits && a.Verb == weir.Spend && (a.Role == weir.Enforce || a.Role == weir.Own || a.Role == weir.Pool && a.Borrowed)
}

// overtake notes that a refuses after all, and if it is an own share that its pool is not
// asked any more.
func (t *crossing) overtake(a *crossed, d weir.Decision) {
	a.charged, a.fits, a.decision = false, false, d
	for i := range t.all[1:] {
		if pool := &t.all[i+1]; &t.all[i] == a && a.isShare && pool.fits {
			pool.fits, pool.decision.RetryAfter = false, d.RetryAfter
		}
	}
}

// takeOver notes that a was charged as o says. What was refused when it was looked at
// stays refused.
func (a *crossed) takeOver(o *weir.Op, renewed bool) {
	retry := a.decision.RetryAfter
	if !o.Charged {
		a.fits = o.Decision.Allowed()
	}
	a.now, a.charged, a.renewed, a.decision = o.Now, o.Charged, renewed, o.Decision
	if retry != 0 && a.decision.RetryAfter == 0 && a.Verb != weir.Refund {
		a.decision.RetryAfter = retry
	}
}

// answerOps answers the ops.
func (t *crossing) answerOps() {
	now := int64(0)
	for i := range t.all {
		a := &t.all[i]
		now = a.now
		look := weir.Decision{Limit: a.Limit}
		if !a.fits {
			look.RetryAfter = weir.Never
		}
		a.Answer = weir.Answer{Decision: look}
	}
	weir.Resolve(t.ops) // tells what was borrowed
	for i := range t.ops {
		o := &t.ops[i]
		o.Answer = weir.Answer{Decision: o.Decision, Now: now, Borrowed: o.Borrowed}
	}
	for i := range t.all {
		a := &t.all[i]
		a.Answer = weir.Answer{Decision: a.decision, Now: a.now, Charged: a.charged, Borrowed: a.Borrowed}
	}
}
