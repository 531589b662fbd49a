package shared

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/permit"
	"github.com/weirlimit/weir/store/internal/transport"
)

// recall is phase 1: it answers the ops of the store from remembered refusals, if nothing
// is charged for a refusal and one of them is refused.
func (d *decision) recall() (refusal weir.Decision, ok bool) {
	for i := range d.stored.ops {
		if o := &d.stored.ops[i]; o.Role == weir.Deny || !transport.IsSpend(o) || o.Cost == 0 {
			return refusal, false
		}
	}
	now := d.clock.Now()
	for i := range d.stored.ops {
		o := &d.stored.ops[i]
		o.Decision, o.Charged, o.Borrowed = weir.Decision{}, false, false
		if v, _ := d.stored.of[i].decider.Draw(d.ctx, now, o, nil); v == lot.Refused {
			refusal, ok = o.Decision, true
		}
	}
	return refusal, ok
}

// mostFlights is how many flights a draw waits for: those may bring nothing for it, as others
// draw first, another version of the limit is loaded, or a window ends. Four times as many
// units are fetched each time where they are used at once.
const mostFlights = 8

// draw decides an op by what the node holds, and waits for what brings units, as long as
// the budget allows, which is the context from then on. The error is why that has brought
// nothing. After mostFlights the store decides.
//
// It does not keep the op, so that its caller can have it on the stack. To the compiler a
// call of an interface keeps its arguments: each decider is called as what it is, and
// another, such as one that watches, gets a copy.
func (s *Store) draw(ctx context.Context, p *policy, o *weir.Op, h *lot.Hold) (context.Context, lot.Verdict, error) {
	for range mostFlights {
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
		ctx = s.queue.Begin(ctx)
		if err := s.queue.Await(ctx, &f.Flight); err != nil {
			return ctx, lot.Ask, err
		}
		if f.Refused > 0 && o.Cost >= f.Refused {
			o.Decision, o.Charged, o.Borrowed = f.Decision, false, false
			o.Decision.Limit, o.Now = p.limit.From(p.source), int64(s.clock.Latest(s.clock.Now()))
			return ctx, lot.Refused, nil
		}
	}
	return ctx, lot.Ask, nil
}

// drawAll draws for the ops that are decided on a route, and stops at the first refusal,
// which it returns. What the deciders ask the store for goes to its part of the request, and
// of a shadow, when that was asked already, in a call of its own.
func (d *decision) drawAll(at route) (*weir.Decision, error) {
	for i := range d.ops {
		if d.at[i] != at {
			continue
		}
		o := &d.ops[i]
		ctx, v, err := d.draw(d.ctx, d.of[i], o, d.holdOf(i))
		d.ctx = ctx
		switch {
		case err != nil:
			err = d.outage.Decide(d.ctx, d.ops[i:i+1], err)
		case v == lot.Ask && at == shadowOfLot:
			err = d.ask(d.ops[i:i+1], d.of[i:i+1])
		case v == lot.Ask:
			d.at[i] = byStore
			d.stored.add(o, d.of[i], i)
			continue
		}
		if err != nil {
			return nil, err
		}
		if o.Role == weir.Enforce && o.Verb == weir.Spend && !o.Decision.Allowed() {
			return &o.Decision, nil
		}
	}
	return nil, nil
}

// ask has the store decide ops in one call, or the outage if that has no answer.
func (d *decision) ask(ops []weir.Op, of []*policy) error {
	for i, p := range of {
		if o := &ops[i]; p != nil && p.askBy != nil && o.Verb != weir.Force && o.Verb != weir.Refund {
			o.Limit = p.askBy(o.Cost + o.Headroom)
		}
	}
	sent, err := d.queue.Do(d.ctx, ops)
	for i, p := range of {
		if p != nil {
			ops[i].Limit = p.limit
		}
	}
	if d.observe(ops, sent, err) != nil {
		return d.outage.Decide(d.ctx, ops, err)
	}
	for i, p := range of {
		o := &ops[i]
		if p == nil || o.Decision.Limit == nil {
			continue
		}
		if d.learn(o, p, sent); o.Verb != weir.Force && o.Verb != weir.Refund {
			o.Decision.Limit = p.label(o.Decision)
		}
	}
	return nil
}

// learn has the decider, or at least the refusals, take over what the store answered.
func (d *decision) learn(o *weir.Op, p *policy, sent clock.Node) {
	tag := d.table.Tag(o.Key, o.Limit)
	if p.canLearn(o) {
		p.decider.Learn(o, sent)
	} else if o.Verb != weir.Refund {
		d.refusals.Learn(tag, o.Limit, o.Cost, sent, o.Decision, 0)
	}
	if o.Verb == weir.Refund {
		d.refusals.Refund(tag, o.Limit, d.clock.Now(), o.Decision)
	}
}
