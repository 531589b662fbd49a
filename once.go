package weir

import (
	"context"
	"math"

	"github.com/weirlimit/weir/internal/neighbor"
)

// takeOnce has a store decide r's ops and its mark in one call, all or nothing. The mark
// lies beside the first counter, so that one server can do that.
//
// One would try to look at the mark first and to charge then: two calls at the same time
// would both find none. What a refusal charges comes in a call of its own instead, as the
// refusal of a mark must charge nothing.
func takeOnce(ctx context.Context, s Store, r *Request) error {
	ops, charges := make([]Op, 1, len(r.ops)+1), false
	ops[0] = *r.Mark
	ops[0].Key = neighbor.Key(r.ops[0].Key, r.Mark.Key)
	for _, o := range r.ops {
		charges = charges || o.Penalize || o.Role == Ban
		if o.Penalize = false; o.Role == Ban {
			o.Role, o.Verb = Enforce, Peek
		}
		ops = append(ops, o)
	}
	err := s.Take(ctx, ops)
	r.Mark.Answer = ops[0].Answer
	for i := range r.ops {
		r.ops[i].Answer = ops[i+1].Answer
	}
	switch d := Fold(r.ops); {
	case err != nil:
		return err
	case r.Mark.Decision.Degraded():
		return ErrMark
	case r.Mark.Decision.Allowed() && !d.Allowed() && charges:
		return chargeRefusal(ctx, s, r, d)
	}
	return nil
}

// chargeRefusal has a store charge what r is charged as d refuses it.
func chargeRefusal(ctx context.Context, s Store, r *Request, d Decision) error {
	ops := make([]Op, 0, len(r.ops)+1)
	ops = append(ops, r.ops...)
	for i := range ops {
		ops[i].Answer = Answer{}
	}
	ops = append(ops, Op{Limit: d.Limit, Role: Deny, Answer: Answer{Decision: Decision{RetryAfter: math.MaxInt64}}})
	if err := s.Take(ctx, ops); err != nil {
		return err
	}
	for i := range r.ops {
		if o := &r.ops[i]; o.Penalize || o.Role == Ban {
			o.Answer = ops[i].WithDecision(o.Decision)
		}
	}
	return nil
}

// isRepeated reports whether r was charged before, by its mark: now it was not.
func (r *Request) isRepeated() bool {
	return r.Mark != nil && r.Mark.Decision.Limit != nil && !r.Mark.Decision.Allowed()
}

// foldRepeated makes the decision of a request that passed before: it passes, with what
// remains now.
func (r *Request) foldRepeated() Decision {
	passUnasked(r.ops)
	ops := make([]Op, 0, len(r.ops))
	for _, o := range r.ops {
		o.Verb, o.Outcome = Force, Uncounted
		ops = append(ops, o)
	}
	for i := range r.ops {
		r.ops[i].Outcome = Uncounted
	}
	return Fold(ops)
}
