package tier

import (
	"time"

	"github.com/weirlimit/weir/store/region"
)

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
	// Regions are the other regions, in the order of Options.Peers.
	Regions []region.PeerStats
	// NodeLate is how late this node's own timers were in all: so much longer calls
	// of the store were waited for.
	NodeLate time.Duration
	// Lag is for how long some other region has not been told of something that this
	// node knows of, at worst. Capped is how many units were asked for in vain, as the
	// others had to be told first.
	Lag    time.Duration
	Capped uint64
}

// Stats returns how the store is doing.
func (s *Store) Stats() Stats {
	k, q := s.link, s.link.Queue.Stats()
	keys, units := s.leases.held()
	slotKeys, slotUnits := s.slots.count()
	st := Stats{
		Nodes: s.nodes.count(), Away: k.IsOpen(),
		Calls: q.Calls, Failed: q.Failed, Late: q.Late, Busy: q.Busy,
		Held: s.spentHeld.Load(), Fetched: s.fetched.Load(), LeaseKeys: keys + slotKeys, LeaseUnits: units + slotUnits,
		Returned: s.leases.returns.given.Load(), Stranded: s.leases.returns.stranded.Load(),
		Overshot: s.overshot.Load(),
		Combined: q.Combined, Recalled: s.refusals.Recalled.Load(), Degraded: s.degraded.Load(),
		NodeLate: k.meter.Total(),
		Debts:    s.debts.len(), DebtPaid: s.debts.paid.Load(), DebtLost: s.debts.lost.Load(),
	}
	if s.region != nil {
		r := s.region.Stats()
		st.Lag, st.Capped, st.Overshot, st.Regions = r.Lag, r.Capped, max(st.Overshot, r.Overshot), r.Peers
	}
	return st
}
