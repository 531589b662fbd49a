package shared

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/permit"
	"github.com/weirlimit/weir/store/internal/transport"
)

// recallRefusal is phase 1: it answers the ops of the store from remembered refusals, if nothing
// is charged for a refusal and one of them is refused.
func (d *decision) recallRefusal() (refusal weir.Decision, ok bool) {
	for i := range d.stored.ops {
		if o := &d.stored.ops[i]; o.Role == weir.Deny || !transport.IsSpend(o) || o.Cost == 0 {
			return refusal, false
		}
	}
	now := d.clock.Now()
	for i := range d.stored.ops {
		o := &d.stored.ops[i]
		o.Answer = weir.Answer{Now: o.Now}
		if v, _ := d.stored.of[i].decider.Draw(d.ctx, now, o, nil); v == lot.Refused {
			refusal, ok = o.Decision, true
		}
	}
	return refusal, ok
}

// takeNode has the node's store decide its part of the request, or only look at it: what
// cannot be given back without a trace is charged last, when all others have allowed.
func (d *decision) takeNode(look bool) (weir.Decision, error) {
	ops := d.onNode.ops
	if look {
		transport.TurnIntoPeeks(ops)
	}
	err := d.takeLocal(d.ctx, ops)
	for j, i := range d.onNode.at {
		ops[j].Verb, ops[j].Headroom = d.ops[i].Verb, d.ops[i].Headroom
	}
	return weir.Fold(ops), err
}

// mostFlights is how many flights a draw waits for: those may bring nothing for it, as others
// draw first, another version of the limit is loaded, or a window ends. Where many wait, each
// flight wakes all of them for a share of what is left, and the budget of the last would be over
// before theirs lands: asked directly, the store decides all of a key in one call. Permits have
// names, so that each would be a call of its own.
const mostFlights, mostPermitFlights = 3, 8

// drawUnits decides an op by what the node holds, and waits for what brings units, as long as
// the budget allows, which is the context from then on. The error is why that has brought
// nothing. After those of its policy the store decides.
//
// It does not keep the op, so that its caller can have it on the stack. To the compiler a
// call of an interface keeps its arguments: each decider is called as what it is, and
// another, such as one that watches, gets a copy.
func (s *Store) drawUnits(ctx context.Context, p *policy, o *weir.Op, h *lot.Hold) (context.Context, lot.Verdict, error) {
	for range p.flights {
		var v lot.Verdict
		var f *lot.Flight
		switch now := s.clock.Now(); d := p.decider.(type) {
		case *leased.Decider:
			v, f = d.Draw(ctx, now, o, h)
		case *eventual.Decider:
			v, f = d.Draw(ctx, now, o, h)
		case *permit.Decider:
			v, f = d.Draw(ctx, now, o, h)
		case *strict:
			v, f = d.Draw(ctx, now, o, h)
		default:
			c := s.decisions.Get().(*decision)
			c.one[0] = *o
			v, f = d.Draw(ctx, now, &c.one[0], h)
			*o = c.one[0]
			s.decisions.Put(c)
		}
		if v != lot.Wait {
			return ctx, v, nil
		}
		ctx = s.queue.BeginBudget(ctx)
		if err := s.queue.AwaitFlight(ctx, &f.Flight); err != nil {
			return ctx, lot.Ask, err
		}
		if f.Refused > 0 && o.Cost >= f.Refused {
			a := f.Decision
			a.Limit = p.limit.From(p.source)
			o.Answer = weir.Answer{Decision: a, Now: int64(s.clock.Latest(s.clock.Now()))}
			return ctx, lot.Refused, nil
		}
	}
	return ctx, lot.Ask, nil
}

// drawAll draws for the ops that are decided on a route, and stops at the first refusal,
// which it returns. What the deciders ask the store for goes to its part of the request, and
// of a shadow, when that was asked already, in a call of its own.
func (d *decision) drawAll(at route) (refused *weir.Op, err error) {
	for i := range d.ops {
		if d.at[i] != at {
			continue
		}
		o := &d.ops[i]
		ctx, v, err := d.drawUnits(d.ctx, d.of[i], o, d.holdOf(i))
		d.ctx = ctx
		switch {
		case err != nil:
			err = d.outage.DecideOps(d.ctx, d.ops[i:i+1], err)
		case v == lot.Ask && at == shadowOfLot:
			err = d.askStore(d.ops[i:i+1], d.of[i:i+1])
		case v == lot.Ask:
			d.at[i] = byStore
			d.stored.appendOp(o, d.of[i], i)
			continue
		}
		if err != nil {
			return nil, err
		}
		if o.Role == weir.Enforce && o.Verb == weir.Spend && !o.Decision.Allowed() {
			return o, nil
		}
	}
	return nil, nil
}

// pushRefunded has the store told first of what ops refund and deciders have not told yet. A
// refund of what is not counted gives nothing back, and what is told after it is counted for good.
func (d *decision) pushRefunded(ops []weir.Op, of []*policy) error {
	for i, p := range of {
		if p == nil || ops[i].Verb != weir.Refund {
			continue
		}
		teller, isEventual := p.decider.(*eventual.Decider)
		for n := 0; isEventual && n < 2; n++ { // the flight under way, and the one with what was admitted since
			f := teller.PushOpen(ops[i].Key)
			if f == nil {
				break
			}
			d.ctx = d.queue.BeginBudget(d.ctx)
			if err := d.queue.AwaitFlight(d.ctx, &f.Flight); err != nil {
				return err
			}
		}
	}
	return nil
}

// askStore has the store decide ops in one call, or the outage if that has no answer.
func (d *decision) askStore(ops []weir.Op, of []*policy) error {
	if err := d.pushRefunded(ops, of); err != nil {
		return d.outage.DecideOps(d.ctx, ops, err)
	}
	if !d.nodes.countsOnly.Load() && isOwed(ops) { // else no call is carried out whole
		return d.settleOwed(ops)
	}
	sent, err := d.queue.DecideInBudget(d.ctx, ops)
	if d.observe(ops, sent, err) != nil {
		return d.outage.DecideOps(d.ctx, ops, err)
	}
	for i, p := range of {
		o := &ops[i]
		if p == nil || o.Decision.Limit == nil {
			continue
		}
		if d.learnAnswer(o, p, sent); o.Verb != weir.Force && o.Verb != weir.Refund {
			a := o.Decision
			a.Limit = p.labelLimit(a)
			o.Answer = o.WithDecision(a)
		}
	}
	return nil
}
