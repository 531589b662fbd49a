package weir

import (
	"context"

	"github.com/weirlimit/weir/internal/neighbor"
)

// Cancel gives back what the last decision on r charged: a place in a queue if
// nobody has queued behind it, units of windows that are still open, a lease.
// What an approximate limit has counted stays spent.
func (l *Limiter) Cancel(ctx context.Context, r *Request) error {
	var buf [8]Op
	ops := buf[:0]
	for i := range r.ops {
		// A store refuses a refund to a sketch, and with it all the others.
		if o := &r.ops[i]; o.Charged && o.Verb != Refund && o.Limit.traits&Sketches == 0 {
			ops = append(ops, o.Undo(o.Cost))
		}
	}
	if m := r.Mark; m != nil && m.Charged && len(r.ops) > 0 {
		u := m.Undo(m.Cost)
		u.Key = neighbor.Key(r.ops[0].Key, m.Key)
		ops = append(ops, u)
	}
	if len(ops) == 0 {
		return nil
	}
	return l.store.Take(ctx, ops)
}

// Release ends the lease that r was decided under, wherever it is held: an
// idempotent Cancel by name. It reports whether a limit had one under that name, and returns
// an error where that is not known since the shared store did not answer. r is matched anew,
// as a Refund so that rules which were switched off meanwhile can tell, and nothing else is
// charged.
func (l *Limiter) Release(ctx context.Context, r *Request) (released bool, err error) {
	if r.Lease == "" {
		return false, ErrNoLease
	}
	verb := r.Verb
	r.Verb = Refund
	ops := l.Match(r)
	r.Verb = verb
	kept := ops[:0]
	for _, o := range ops {
		if o.Limit.traits&Leases != 0 {
			kept = append(kept, o.Undo(o.Cost))
		}
	}
	r.ops = kept
	if len(kept) == 0 {
		return false, nil
	}
	if err := l.store.Take(ctx, kept); err != nil {
		return false, err
	}
	for i := range kept {
		switch o := &kept[i]; {
		case o.Charged && o.Decision.Allowed():
			released = true
		case o.Decision.Degraded() && !o.NewLease: // else it is given back later
			err = errUnreleased
		}
	}
	return released, err
}

// Adjust tells the limits that the last decision on r charged how the request
// ended: what does not count is given back, and what it cost beyond the
// estimate is charged. It does nothing where no limit has a Adjustment. Call it
// once.
func (l *Limiter) Adjust(ctx context.Context, r *Request, res Result) error {
	var buf [8]Op
	ops := buf[:0]
	for i := range r.ops {
		o := &r.ops[i]
		s := o.adjustment()
		if s == nil {
			continue
		}
		switch cost := s.finalCost(&res, o.Cost); {
		case cost < o.Cost:
			ops = append(ops, o.UndoRest(o.Cost-cost))
		case cost > o.Cost:
			ops = append(ops, Op{Key: o.Key, Limit: o.Limit, Cost: cost - o.Cost, Role: Always, Verb: Force})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return l.store.Take(ctx, ops)
}
