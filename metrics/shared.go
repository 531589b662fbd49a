package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Shared is the state of the store that nodes share, as seen by one node.
type Shared struct {
	// Nodes is how many share it, as known to this node.
	Nodes int64
	// Reached: the store was opened and checked, at the start or since.
	Reached bool
	// Up reports whether the circuit breaker of the store is closed.
	Up bool
	// Calls counts calls, Failed those that failed, Late those of them that timed out.
	// Busy counts decisions that found the maximum number of calls in flight.
	Calls, Failed, Late, Busy uint64
	// Combined counts charges coalesced into the call of another decision, Recalled
	// decisions from the deny cache, Held decisions from leased units, Fetched the calls
	// that fetched those.
	Combined, Recalled, Held, Fetched uint64
	// Leases counts keys with leased units, LeasedUnits those units.
	Leases, LeasedUnits int64
	// Returned and Stranded count leased units that were not charged: given back, and
	// not.
	Returned, Stranded uint64
	// Overshot is the most units above a limit that one with eventual consistency
	// was seen to have admitted.
	Overshot int64
	// Degraded counts requests that were decided by their limits' failure
	// policies.
	Degraded uint64
	// Debts counts keys with a debt, DebtPaid the units charged to the store after an
	// outage, DebtLost those that never will be.
	Debts              int64
	DebtPaid, DebtLost uint64
	// Regions are the other regions. Lag is the age in seconds of the oldest units that
	// one of them has not received, and Capped counts how often units were not admitted
	// because of that.
	Regions []Region
	Lag     float64
	// TimerDelay is the total delay in seconds of this node's own timers.
	TimerDelay float64
	Capped     uint64
}

// Region is the state of another region, as seen by one node.
type Region struct {
	Name string
	// Up reports whether its store responds, LastSuccess when it last did.
	Up          bool
	LastSuccess time.Time
	// Synced counts the units charged to its store, Failed the calls that failed.
	Synced, Failed uint64
}

var (
	sharedNodes     = desc("weir_shared_store_nodes", "Nodes that share the store, as known to this node.")
	sharedReached   = desc("weir_shared_store_reached", "1 once the shared store was reached and checked; 0 on a node that started without it and is still connecting.")
	sharedUp        = desc("weir_shared_store_up", "1 while the circuit breaker of the shared store is closed; 0 while it is open.")
	sharedCalls     = desc("weir_shared_store_calls_total", "Calls of the shared store, by result.", "result")
	sharedAvoided   = desc("weir_shared_store_calls_avoided_total", "Decisions that needed no call of their own: made from leased units (lease), from a remembered refusal (deny_cache), or in the call of another decision (coalesced).", "reason")
	sharedFetched   = desc("weir_shared_store_fetches_total", "Calls that fetched units for a lease.")
	sharedBusy      = desc("weir_shared_store_busy_total", "Decisions that found the maximum number of calls in flight.")
	sharedLeases    = desc("weir_shared_store_lease_keys", "Keys for which this node holds leased units.")
	sharedUnits     = desc("weir_shared_store_lease_units", "Leased units that this node holds.")
	sharedUnused    = desc("weir_shared_store_unused_units_total", "Leased units that were not charged: given back to the store (returned) or not (lost).", "result")
	sharedOvershot  = desc("weir_shared_store_overshoot_max_units", "Largest observed number of units above a limit with eventual consistency; weir_limit_max_overshoot_units is the bound.")
	sharedDegraded  = desc("weir_degraded_decisions_total", "Requests decided by on_store_error because the shared store was unavailable.")
	sharedDebts     = desc("weir_shared_store_debt_keys", "Keys with units admitted during an outage and not yet charged to the shared store.")
	timerDelay      = desc("weir_timer_delay_seconds_total", "Total delay of this node's own timers, from a lack of processor time or a pause; timeouts of store calls are extended by it.")
	regionLag       = desc("weir_region_lag_seconds", "Age of the oldest admitted units that some other region has not received from this node.")
	regionCapped    = desc("weir_region_capped_total", "Charges and fetches refused because max_overshoot was used up by units that another region has not received.")
	regionUp        = desc("weir_region_up", "1 while the store of another region responds.", "region")
	regionSuccess   = desc("weir_region_last_success_timestamp_seconds", "When the store of another region last responded.", "region")
	regionSynced    = desc("weir_region_synced_units_total", "Units that this node charged to the store of another region.", "region")
	regionFailed    = desc("weir_region_request_failures_total", "Calls of the store of another region that failed.", "region")
	sharedDebtUnits = desc("weir_shared_store_debt_units_total", "Units admitted while the shared store was unavailable: charged to it afterwards (charged) or never (lost).", "result")
)

var sharedDescs = []*prometheus.Desc{sharedNodes, sharedReached, sharedUp, sharedCalls, sharedAvoided, sharedFetched, sharedBusy,
	sharedLeases, sharedUnits, sharedUnused, sharedOvershot, sharedDegraded, sharedDebts, sharedDebtUnits, timerDelay,
	regionLag, regionCapped, regionUp, regionSuccess, regionSynced, regionFailed}

func (s *Shared) collect(ch chan<- prometheus.Metric, counter writeCounter, gauge writeGauge) {
	gauge(sharedNodes, float64(s.Nodes))
	gauge(sharedReached, oneIf(s.Reached))
	gauge(sharedUp, oneIf(s.Up))
	// Counted one after the other, a failure can be seen before its call.
	counter(sharedCalls, s.Calls-min(s.Failed, s.Calls), "ok")
	counter(sharedCalls, s.Failed-min(s.Late, s.Failed), "error")
	counter(sharedCalls, s.Late, "timeout")
	counter(sharedAvoided, s.Held-min(s.Fetched, s.Held), "lease")
	counter(sharedAvoided, s.Recalled, "deny_cache")
	counter(sharedAvoided, s.Combined, "coalesced")
	counter(sharedFetched, s.Fetched)
	counter(sharedBusy, s.Busy)
	gauge(sharedLeases, float64(s.Leases))
	gauge(sharedUnits, float64(s.LeasedUnits))
	counter(sharedUnused, s.Returned, "returned")
	counter(sharedUnused, s.Stranded, "lost")
	gauge(sharedOvershot, float64(s.Overshot))
	counter(sharedDegraded, s.Degraded)
	gauge(sharedDebts, float64(s.Debts))
	counter(sharedDebtUnits, s.DebtPaid, "charged")
	counter(sharedDebtUnits, s.DebtLost, "lost")
	ch <- prometheus.MustNewConstMetric(timerDelay, prometheus.CounterValue, s.TimerDelay)
	if len(s.Regions) == 0 {
		return
	}
	gauge(regionLag, s.Lag)
	counter(regionCapped, s.Capped)
	for _, r := range s.Regions {
		gauge(regionUp, oneIf(r.Up), r.Name)
		gauge(regionSuccess, float64(r.LastSuccess.UnixMicro())/1e6, r.Name)
		counter(regionSynced, r.Synced, r.Name)
		counter(regionFailed, r.Failed, r.Name)
	}
}
