package outage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/transport"
)

// denyRetry is the RetryAfter of what is refused while a shard is out. It is a guess:
// within it, a shard that is back has been found.
const denyRetry = time.Second

// A decision is room for a request that has no answer.
type decision struct {
	ops   []weir.Op // what the node's store is asked
	parts []part    // of the ops of the request
	// sent: the call may have been carried out. early: its caller left it.
	sent, early bool
}

// A part is how an op of the request is decided.
type part struct {
	source weir.Source // of a decision by a share; FromStore: it is by none
	asked  int         // which op of the decision asks the share
	debt   *debt
	back   int64 // units that the shared store gets back if the request passes
}

// DecideOps answers ops by their limits' on_store_error, as the call of them ended with err.
// It returns err where no decision may be made: it is about what was asked, or the end of
// ctx.
func (u *Outage) DecideOps(ctx context.Context, ops []weir.Op, err error) error {
	r, _ := errors.AsType[*transport.Result](err)
	failed := err
	if !slices.ContainsFunc([]error{weir.ErrCost, weir.ErrNoLease, weir.ErrRefund, weir.ErrClosed, ctx.Err()},
		func(wrong error) bool { return wrong != nil && errors.Is(err, wrong) }) {
		n := u.spare.Get().(*decision)
		*n = decision{ops: n.ops[:0], parts: n.parts[:0], sent: transport.MayRun(err), early: r != nil && r.Outcome == transport.CallerGone}
		failed = u.decideParts(ctx, n, ops)
		if u.release(n); failed == nil {
			u.Degraded.Add(1)
			if u.Failed != nil {
				u.Failed(err)
			}
		}
	}
	u.returnPermits(ops, err, r != nil && r.IsLeft(), failed == nil && weir.Fold(ops).Allowed(), r)
	return failed
}

// release ends the use of debts.
func (u *Outage) release(n *decision) {
	u.mu.Lock()
	for _, p := range n.parts {
		if p.debt != nil {
			p.debt.users--
		}
	}
	u.mu.Unlock()
	u.spare.Put(n)
}

func (u *Outage) decideParts(ctx context.Context, n *decision, ops []weir.Op) error {
	var policy params.StoreErrorPolicy
	for i := range ops {
		o := &ops[i]
		now := int64(u.Clock.Latest(u.Clock.Now()))
		if o.Role == weir.Deny {
			o.Answer = weir.Answer{Decision: o.Decision, Now: now}
			n.ops, n.parts = append(n.ops, *o), append(n.parts, part{})
			continue
		}
		o.Answer = weir.Answer{Now: now}
		t, err := u.Terms(o.Limit)
		if err != nil {
			return err
		}
		if o.Role != weir.Pool || i == 0 { // a pool goes by the policy of the limit that borrows from it
			policy = t.policy
		}
		p, err := u.routeOp(n, o, t, policy)
		if n.parts = append(n.parts, p); err != nil {
			return err
		}
	}
	if len(n.ops) > 0 {
		if err := u.Local.Take(ctx, n.ops); err != nil {
			return err
		}
	}
	for i := range ops {
		if p := &n.parts[i]; p.source != weir.FromStore {
			u.answerPart(&n.ops[p.asked], p, &ops[i])
		}
	}
	if weir.Fold(ops).Allowed() {
		for i := range ops {
			u.returnUnits(&ops[i], n.parts[i].back, n.sent)
		}
	}
	return nil
}

// routeOp decides an op, or has the node's store asked.
func (u *Outage) routeOp(n *decision, o *weir.Op, t *Terms, policy params.StoreErrorPolicy) (p part, err error) {
	if policy == params.OnErrorAllow && n.early {
		policy = params.OnErrorLocal
	}
	if o.Verb == weir.Refund && o.Limit.Traits()&weir.Leases == 0 {
		p.back = o.Cost
	}
	switch {
	case policy == params.OnErrorAllow:
		remaining := o.Limit.Burst
		if o.Role == weir.Ban {
			remaining = o.Limit.Count // nothing is known of its refusals, and none are added
		}
		o.Answer = weir.Answer{Decision: weir.Decision{Limit: o.Limit.From(weir.FailedOpen), Remaining: remaining}, Now: o.Now}
	case policy != params.OnErrorDeny:
		parts := u.Nodes() * t.regions
		if p.source = weir.FromShare; policy == params.OnErrorLastKnown {
			parts, p.source = 1, weir.FromLastKnown
		}
		err = u.routeToShare(n, o, t, parts, &p)
	default:
		d := weir.Decision{Limit: o.Limit.From(weir.FailedClosed)}
		denies := (o.Role == weir.Enforce || o.Role == weir.Own) && o.Verb <= weir.Peek // others refuse nothing by themselves
		if denies {
			d.RetryAfter = denyRetry
		}
		if o.Answer = (weir.Answer{Decision: d, Now: o.Now}); denies {
			n.ops = append(n.ops, *o)
			n.ops[len(n.ops)-1].Role = weir.Deny
		}
	}
	return p, err
}

// routeToShare has an op decided by one of so many shares. Of permits the share keeps a count
// of its own. What is given back goes to the share as far as that was spent and is owed.
func (u *Outage) routeToShare(n *decision, o *weir.Op, t *Terms, parts int64, p *part) error {
	share, err := t.shareOfParts(parts)
	if err != nil {
		return err
	}
	asked := *o
	asked.Limit = share
	if refund := p.back > 0; o.Verb != weir.Peek && o.Limit.Traits()&weir.Leases == 0 && !(refund && n.sent) {
		var owed int64
		if p.debt, owed, err = u.openDebt(o, share, parts); refund {
			p.back = max(o.Cost-owed, 0)
		}
	}
	asked.Cost -= p.back
	p.asked = len(n.ops)
	n.ops = append(n.ops, asked)
	return err
}

// answerPart takes over what the share said of a part.
func (u *Outage) answerPart(asked *weir.Op, p *part, o *weir.Op) {
	d := asked.Decision
	if d.Limit != nil {
		d.Limit = o.Limit.From(p.source)
	}
	o.Answer = asked.WithDecision(d)
	taken := asked.Cost
	if !asked.Charged {
		taken = 0
	}
	switch {
	case o.Limit.Traits()&weir.Leases != 0 || asked.Cost == 0:
	case o.Verb == weir.Refund:
		// A node's store that is full takes nothing back: less is owed all the same.
		if p.debt != nil {
			p.back += u.changeDebt(p.debt, -asked.Cost, -taken) // what was paid meanwhile
			o.Answer.Set(o.Decision, o.Now, 0, true, o.Borrowed)
		}
	case p.debt == nil:
		u.Lost.Add(uint64(taken))
	default:
		u.changeDebt(p.debt, taken, taken)
	}
}
