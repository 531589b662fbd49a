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

// takeAll decides ops in three moves, under the locks of all their segments. all
// and locks lend their memory.
func (s *Store) takeAll(ops []weir.Op, all []taken, locks lockSet) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	if err := s.locate(ops, all); err != nil {
		return err
	}
	locks = s.hold(ops, all, locks)
	now := locks.now(s.clock)
	for i := range ops {
		all[i].look(&ops[i], now)
	}
	weir.Resolve(ops)
	moved := false
	for i := range ops {
		if !ops[i].Charged {
			continue
		}
		p := &all[i]
		found := p.found
		p.charge(&ops[i], now, moved)
		// A row that was made may stand where that of a later op was.
		moved = moved || p.found != found
	}
	locks.unlock()
	return nil
}

// takeSingle takes an op that stands alone: its answer is the request's.
func (s *Store) takeSingle(o *weir.Op) error {
	if err := checkCost(o); err != nil {
		return err
	}
	d, now, err := s.one(o.Key, o.Limit, weir.Ask{Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
	if err != nil {
		return err
	}
	o.Decision, o.Now, o.Borrowed = d, now, false
	switch o.Verb {
	case weir.Spend:
		o.Charged = d.Allowed()
	case weir.Refund: // of a key that has no room, a sketch takes nothing back
		o.Charged = d.Guarantee().Source != weir.FromSketch
	default:
		o.Charged = o.Verb == weir.Force
	}
	return nil
}
