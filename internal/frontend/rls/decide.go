package rls

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/checks"
)

// decide asks the limiter, and fills in the statuses. The part whose limits
// speak in the answer's fields is the one that can be refused, if there is one.
//
// What is charged in any case is charged whatever becomes of the rest; what is
// given back is given back if the rest passes.
func (c *call) decide(ctx context.Context) (d weir.Decision, speaker *part, err error) {
	l := c.service.limiter
	spend, charge, refund := &c.parts[spending], &c.parts[charging], &c.parts[refunding]
	d, speaker = weir.AllowUnlimited(), spend
	if len(spend.places) == 0 {
		speaker = charge
	}
	if len(charge.places) > 0 {
		charge.req.Facts = checks.Facts(&charge.req)
		if d, err = l.Decide(ctx, &charge.req); err != nil {
			return d, nil, err
		}
		c.tell(charge, d)
	}
	if len(spend.places) > 0 {
		spend.req.Facts, spend.req.Patience = checks.Facts(&spend.req), c.service.patience
		if d, err = l.Decide(ctx, &spend.req); err != nil {
			return d, nil, err
		}
		if delay := spend.req.Delay(); delay > 0 && d.Allowed() {
			if err = c.service.wait(ctx, &spend.req, delay); err != nil {
				return weir.Decision{}, nil, err
			}
		}
		c.tell(spend, d)
	}
	if len(refund.places) > 0 && d.Allowed() {
		if err := c.giveBack(ctx, refund); err != nil {
			return weir.Decision{}, nil, c.undo(ctx, err)
		}
	}
	return d, speaker, nil
}

// mayWait is [weir.Request.Patience]. A call that waits has a place among MaxWaiting
// until its wait is over.
func (s *Service) mayWait(ctx context.Context, delay time.Duration) (retryAfter time.Duration) {
	end, ends := ctx.Deadline()
	// The answer needs a moment to arrive.
	const travel = 2 * time.Millisecond
	if s.waiting.Add(1) > int64(s.opt.MaxWaiting) || delay > s.opt.MaxDelay || ends && time.Until(end) < delay+travel {
		s.waiting.Add(-1)
		return delay
	}
	return 0
}

// wait holds a call back for a limit that delays.
func (s *Service) wait(ctx context.Context, r *weir.Request, delay time.Duration) error {
	defer s.waiting.Add(-1)
	if !backoff.Sleep(ctx, delay) {
		return errors.Join(ctx.Err(), s.cancel(ctx, r))
	}
	return nil
}

// cancelTimeout bounds a call to the store that puts a failure right.
const cancelTimeout = 5 * time.Second

func (s *Service) cancel(ctx context.Context, r *weir.Request) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	return s.limiter.Cancel(ctx, r)
}

// undo gives back what was spent when the rest of the call failed with err.
func (c *call) undo(ctx context.Context, err error) error {
	for _, p := range []*part{&c.parts[spending], &c.parts[charging]} {
		if len(p.places) > 0 {
			err = errors.Join(err, c.service.cancel(ctx, &p.req))
		}
	}
	return err
}

// giveBack gives back the cost of p's descriptors, and ends their lease.
func (c *call) giveBack(ctx context.Context, p *part) error {
	l := c.service.limiter
	var few [8]weir.Op
	ops, leases := few[:0], false
	for _, o := range l.Match(&p.req) {
		t := o.Limit.Traits()
		switch {
		case o.Role == weir.Ban || o.Role == weir.Deny || o.Role == weir.Own:
			// Whether units came from a key's own share or from the pool is not
			// known any more: the pool's are given back, so that no key gets more
			// than its own.
			continue
		case t&weir.Leases != 0:
			if p.req.Lease == "" {
				return weir.ErrNoLease
			}
			leases = true
			continue
		case t&(weir.Sketches|weir.Shapes) != 0:
			return weir.ErrRefund
		}
		ops = append(ops, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, Role: weir.Always, Verb: weir.Refund, Descriptor: o.Descriptor})
	}
	if len(ops) > 0 {
		if _, err := l.Apply(ctx, ops); err != nil {
			return err
		}
		for i := range ops {
			s := &c.statuses[p.places[ops[i].Descriptor]]
			s.limit, s.remaining, s.reset = ops[i].Limit, ops[i].Decision.Remaining, ops[i].Decision.ResetAfter
		}
	}
	if leases {
		return l.Release(ctx, &p.req)
	}
	return nil
}

// tell fills in the statuses of p's descriptors.
func (c *call) tell(p *part, d weir.Decision) {
	if len(p.places) == 1 {
		c.set(p.places[0], d)
		return
	}
	ops := p.req.Ops()
	for from := 0; from < len(ops); {
		to := from + 1
		for to < len(ops) && ops[to].Descriptor == ops[from].Descriptor {
			to++
		}
		said := weir.Fold(ops[from:to])
		// A ban that operators put over the rules stands behind all other ops.
		if at := p.places[ops[from].Descriptor]; said.Limit != nil && !c.statuses[at].over {
			c.set(at, said)
		}
		from = to
	}
}

// set makes d the status of the descriptor at.
func (c *call) set(at int, d weir.Decision) {
	s := &c.statuses[at]
	s.limit, s.remaining, s.over, s.reset = d.Limit, d.Remaining, !d.Allowed(), d.ResetAfter
	if d.RetryAfter > 0 {
		// Envoy can make a Retry-After of it.
		s.reset = d.RetryAfter
	}
	desc := &c.descriptors[at]
	s.banned = desc.limited && desc.override.count == 0
}
