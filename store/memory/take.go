package memory

import (
	"context"

	"github.com/weirlimit/weir"
)

const (
	// smallCall is how many ops a call may have without allocating.
	smallCall = 16
	// mostOps is how many ops most calls have at most.
	mostOps = 4
)

// Take implements weir.Store. Up to sixteen ops do not allocate. Ops on the same
// key and limit are decided as a sequence.
func (s *Store) Take(_ context.Context, ops []weir.Op) error {
	switch n := len(ops); {
	case n == 1 && ops[0].Role == weir.Enforce && ops[0].Headroom == 0 && !ops[0].Penalize:
		return s.takeSingle(&ops[0])
	case n == 2 && s.takePair((*[2]weir.Op)(ops)):
		return nil
	case n <= mostOps:
		// Clearing room for more would take longer than deciding.
		var all [mostOps]taken
		var locks [mostOps]*segment
		return s.takeAll(ops, all[:n], locks[:0])
	case n <= smallCall:
		var all [smallCall]taken
		var locks [smallCall]*segment
		return s.takeAll(ops, all[:n], locks[:0])
	default:
		return s.takeAll(ops, make([]taken, n), make([]*segment, 0, n))
	}
}

// takeSingle takes an op that stands alone: its answer is the request's.
func (s *Store) takeSingle(o *weir.Op) error {
	if err := checkCost(o); err != nil {
		return err
	}
	d, now, err := s.stepKey(o.Key, o.Limit, weir.Ask{Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
	if err != nil {
		return err
	}
	charged := o.Verb == weir.Force
	switch o.Verb {
	case weir.Spend:
		charged = d.Allowed()
	case weir.Refund: // of a key that has no room, a sketch takes nothing back
		charged = d.Guarantee().Source != weir.FromSketch
	}
	o.Answer.Set(d, now, 0, charged, false)
	return nil
}
