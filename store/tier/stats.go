package tier

// Stats tells how a store is doing.
type Stats struct {
	// Nodes is how many nodes share the store, as far as this one knows.
	Nodes int64
	// Away: the breaker is open, and nobody waits for the shared store.
	Away bool
	// Calls of the shared store were made; Failed of them failed, Late of those
	// without an answer in time. Busy is how often a decision found no room for
	// a call.
	Calls, Failed, Late, Busy uint64
	// Combined is how many spends went along in the call of another, Recalled
	// how many were answered by a remembered refusal: calls saved.
	Combined, Recalled uint64
	// Held is how many spends were decided by units that the node held, Fetched
	// how many calls brought units: Held less Fetched calls were saved.
	Held, Fetched uint64
	// LeaseKeys is how many keys have a lease, LeaseUnits what they hold.
	LeaseKeys  int
	LeaseUnits int64
	// Returned is how many units were given back unspent, Stranded how many were
	// not, as the shared store did not take them: nobody spends them.
	Returned, Stranded uint64
	// Overshot is the most units above a limit that an eventual one of any key was
	// seen to have admitted. Each limit promises its own, see weir.Limit.Overshoot.
	Overshot int64
	// Degraded is how many requests were decided by their limits' policies.
	Degraded uint64
	// Debts is how many keys have spent units that the shared store has not been
	// told of, DebtPaid and DebtLost the units that it was told of, and those
	// that it perhaps never will.
	Debts              int
	DebtPaid, DebtLost uint64
}

// Stats returns how the store is doing.
func (s *Store) Stats() Stats {
	k := s.link
	keys, units := s.leases.held()
	slotKeys, slotUnits := s.slots.count()
	return Stats{
		Nodes: s.nodes.count(), Away: k.breaker.open.Load(),
		Calls: k.calls.Load(), Failed: k.failures.Load(), Late: k.late.Load(), Busy: k.busy.Load(),
		Held: s.spentHeld.Load(), Fetched: s.fetched.Load(), LeaseKeys: keys + slotKeys, LeaseUnits: units + slotUnits,
		Returned: s.leases.returns.given.Load(), Stranded: s.leases.returns.stranded.Load(),
		Overshot: s.overshot.Load(),
		Combined: s.combiner.combined.Load(), Recalled: s.answers.recalled.Load(), Degraded: s.degraded.Load(),
		Debts: s.debts.len(), DebtPaid: s.debts.paid.Load(), DebtLost: s.debts.lost.Load(),
	}
}
