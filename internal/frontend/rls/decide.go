package rls

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
)

// decideParts asks the limiter, and fills in the statuses. The part whose limits
// speak in the answer's fields is the one that can be refused, if there is one.
//
// What is charged in any case is charged whatever becomes of the rest; what is
// given back is given back if the rest passes.
func (c *call) decideParts(ctx context.Context) (d weir.Decision, speaker *part, err error) {
	spend, charge, refund := &c.parts[spending], &c.parts[charging], &c.parts[refunding]
	d, speaker = weir.AllowUnlimited(), spend
	if len(spend.indexes) == 0 {
		speaker = charge
	}
	if len(charge.indexes) > 0 {
		charge.life.Req.Facts = checks.Facts(&charge.life.Req)
		if d, err = charge.life.DecidePeek(ctx); err != nil {
			return d, nil, err
		}
		c.fillStatuses(charge, d)
	}
	if len(spend.indexes) > 0 {
		spend.life.Req.Facts = checks.Facts(&spend.life.Req)
		if d, err = spend.life.Decide(ctx); err == nil {
			err = spend.life.AwaitDelay(ctx)
		}
		if err != nil {
			return weir.Decision{}, nil, err
		}
		c.fillStatuses(spend, d)
	}
	if len(refund.indexes) > 0 && d.Allowed() {
		if err := c.refundPart(ctx, refund); err != nil {
			// What was spent is given back when the rest of the call fails.
			for _, p := range []*part{spend, charge} {
				if len(p.indexes) > 0 {
					p.life.Cancel(ctx)
				}
			}
			return weir.Decision{}, nil, err
		}
	}
	return d, speaker, nil
}

// refundPart gives back the cost of p's descriptors, and ends their lease.
func (c *call) refundPart(ctx context.Context, p *part) error {
	l := c.service.gate.Limiter
	var buf [8]weir.Op
	ops, permits, err := admit.Refunds(l.Store(), buf[:0], l.Match(&p.life.Req))
	switch {
	case permits && p.life.Req.Lease == "":
		return weir.ErrNoLease
	case err != nil:
		return err
	}
	if len(ops) > 0 {
		if _, err := l.Apply(ctx, ops); err != nil {
			return err
		}
		for i := range ops {
			s := &c.statuses[p.indexes[ops[i].Descriptor]]
			s.remaining, s.reset = ops[i].Decision.Remaining, ops[i].Decision.ResetAfter
			if !ops[i].Written().Hidden {
				s.limit = ops[i].Limit
			}
		}
	}
	if permits {
		_, err := l.Release(ctx, &p.life.Req)
		return err
	}
	return nil
}

// fillStatuses fills in the statuses of p's descriptors.
func (c *call) fillStatuses(p *part, d weir.Decision) {
	ops := p.life.Req.Ops()
	if len(p.indexes) == 1 {
		c.setStatus(p.indexes[0], d, ops)
		return
	}
	for from := 0; from < len(ops); {
		to := from + 1
		for to < len(ops) && ops[to].Descriptor == ops[from].Descriptor {
			to++
		}
		folded := weir.Fold(ops[from:to])
		// A ban that operators put over the rules stands behind all other ops.
		if at := p.indexes[ops[from].Descriptor]; folded.Limit != nil && !c.statuses[at].over {
			c.setStatus(at, folded, ops[from:to])
		}
		from = to
	}
}

// setStatus makes d, made of ops, the status of the descriptor at. Envoy can make header fields
// of the limit.
func (c *call) setStatus(at int, d weir.Decision, ops []weir.Op) {
	s := &c.statuses[at]
	s.limit, s.remaining, s.over, s.reset = d.Limit, d.Remaining, !d.Allowed(), d.ResetAfter
	if answer.IsHidden(ops, d) {
		s.limit = nil
	}
	if d.RetryAfter > 0 {
		// Envoy can make a Retry-After of it.
		s.reset = d.RetryAfter
	}
	desc := &c.descriptors[at]
	s.banned = desc.limited && desc.override.count == 0
}
