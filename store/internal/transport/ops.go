package transport

import "github.com/weirlimit/weir"

// CheckCost returns weir.ErrCost for an op of more than a store can count.
func CheckCost(o *weir.Op) error {
	if uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost {
		return weir.ErrCost
	}
	return nil
}

// IsSpend reports whether o is a spend that must be allowed, and no more.
func IsSpend(o *weir.Op) bool {
	return o.Role == weir.Enforce && o.Verb == weir.Spend && o.Headroom == 0 && !o.Penalize
}

// LeavesLessFor reports whether what earlier takes is no longer there for o, an op on the same
// counter. Asking twice for one permit is asking once.
func LeavesLessFor(earlier, o *weir.Op) bool {
	return earlier.Verb != weir.Peek && earlier.Verb != weir.Refund && (o.Limit.Traits()&weir.Leases == 0 || earlier.ID != o.ID)
}

// TurnIntoPeeks makes ops, which one call is to charge, a look: each has what those before it on the
// same counter leave.
func TurnIntoPeeks(ops []weir.Op) {
	for i := range ops {
		o := &ops[i]
		if o.Cost+o.Headroom == 0 {
			continue
		}
		for j := range i {
			if e := &ops[j]; e.Key == o.Key && e.Limit.ID() == o.Limit.ID() && LeavesLessFor(e, o) {
				o.Headroom += e.Cost
			}
		}
	}
	for i := range ops {
		ops[i].Verb = weir.Peek
	}
}

// Rollback returns the op that gives back what o has charged a moment ago. What has flowed
// into a bucket since is left out of account, or requests that are refused would use up a
// fast one.
func Rollback(o *weir.Op) weir.Op {
	undo := o.Undo(o.Cost)
	undo.FlowsFrom = 0
	return undo
}
