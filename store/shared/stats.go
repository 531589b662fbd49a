package shared

import "time"

// Stats counts since a store was opened, unless a field says otherwise.
type Stats struct {
	// Nodes is how many nodes share the store now, as far as this one knows.
	Nodes int64
	// BreakerOpen: no decision waits for the shared store now.
	BreakerOpen bool
	// Calls of the shared store were made; Failed of them failed, Late of those
	// without an answer in time. Busy is how often a call found no room.
	Calls, Failed, Late, Busy uint64
	// Combined is how many spends went along in the call of another, Recalled
	// how many were answered by a remembered refusal: calls saved.
	Combined, Recalled uint64
	// Held is how many spends were decided by units that the node held, Fetched
	// how many calls brought units: Held less Fetched calls were saved.
	Held, Fetched uint64
	// LeaseKeys is how many keys the node holds something of now, LeaseUnits how much, and
	// LeaseBytes the memory that it takes of Options.MaxBytes.
	LeaseKeys              int
	LeaseUnits, LeaseBytes int64
	// Returned is how many units were given back unspent, Stranded how many were
	// not, as the shared store did not take them: they count until they end.
	Returned, Stranded uint64
	// Overshot is the most units above a limit that an eventual one of any key was
	// seen to have admitted. Each limit promises its own, see weir.Limit.Overshoot.
	Overshot int64
	// Degraded is how many requests were decided by their limits' policies.
	Degraded uint64
	// Debts is how many keys now have units that the shared store has not been charged
	// with, or a call that is made again until it has an answer, DebtPaid and DebtLost the
	// units that it was charged with after an outage, and those that it perhaps never will.
	Debts              int
	DebtPaid, DebtLost uint64
	// NodeLate is how late this node's own timers were in all: so much longer calls
	// of the store were waited for.
	NodeLate time.Duration
}

// Stats returns how the store is doing.
func (s *Store) Stats() Stats {
	q := s.queue.Stats()
	keys, units, bytes := s.table.CountHeld()
	return Stats{
		Nodes: s.nodes.count(), BreakerOpen: s.queue.IsOpen(),
		Calls: q.Calls, Failed: q.Failed, Late: q.Late, Busy: q.Busy, Combined: q.Combined, Recalled: s.refusals.Recalled(),
		Held: s.table.CountDrawn(), Fetched: s.leased.Fetched.Load() + s.permits.Fetched.Load(), LeaseKeys: keys, LeaseUnits: units, LeaseBytes: bytes,
		Returned: s.returns.Returned.Load(), Stranded: s.returns.Stranded.Load(),
		Overshot: s.eventual.Overshot.Load(), Degraded: s.outage.Degraded.Load(), Debts: s.outage.CountDebts() + int(max(s.unheard.Load(), 0)), DebtPaid: s.outage.Paid.Load(), DebtLost: s.outage.Lost.Load(),
		NodeLate: s.meter.Total(),
	}
}
