package metrics

import "time"

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

func (s Shared) collect(out sink) {
	out.gauge("weir_shared_store_nodes", "Nodes that share the store, as known to this node.", float64(s.Nodes))
	out.gauge("weir_shared_store_reached", "1 once the shared store was reached and checked; 0 on a node that started without it and is still connecting.", oneIf(s.Reached))
	out.gauge("weir_shared_store_up", "1 while the circuit breaker of the shared store is closed; 0 while it is open.", oneIf(s.Up))
	// Counted one after the other, a failure can be seen before its call.
	calls := out.counters("weir_shared_store_calls_total", "Calls of the shared store, by result.", "result")
	calls.count(s.Calls-min(s.Failed, s.Calls), "ok")
	calls.count(s.Failed-min(s.Late, s.Failed), "error")
	calls.count(s.Late, "timeout")
	avoided := out.counters("weir_shared_store_calls_avoided_total", "Decisions that needed no call of their own: made from leased units (lease), from a remembered refusal (deny_cache), or in the call of another decision (coalesced).", "reason")
	avoided.count(s.Held-min(s.Fetched, s.Held), "lease")
	avoided.count(s.Recalled, "deny_cache")
	avoided.count(s.Combined, "coalesced")
	out.counter("weir_shared_store_fetches_total", "Calls that fetched units for a lease.", s.Fetched)
	out.counter("weir_shared_store_busy_total", "Decisions that found the maximum number of calls in flight.", s.Busy)
	out.gauge("weir_shared_store_lease_keys", "Keys for which this node holds leased units.", float64(s.Leases))
	out.gauge("weir_shared_store_lease_units", "Leased units that this node holds.", float64(s.LeasedUnits))
	unused := out.counters("weir_shared_store_unused_units_total", "Leased units that were not charged: given back to the store (returned) or not (lost).", "result")
	unused.count(s.Returned, "returned")
	unused.count(s.Stranded, "lost")
	out.gauge("weir_shared_store_overshoot_max_units", "Largest observed number of units above a limit with eventual consistency; weir_limit_max_overshoot_units is the bound.", float64(s.Overshot))
	out.counter("weir_degraded_decisions_total", "Requests decided by on_store_error because the shared store was unavailable.", s.Degraded)
	out.gauge("weir_shared_store_debt_keys", "Keys with units not yet charged to the shared store, or with a call that is sent again until it is answered.", float64(s.Debts))
	debts := out.counters("weir_shared_store_debt_units_total", "Units admitted while the shared store was unavailable: charged to it afterwards (charged) or never (lost).", "result")
	debts.count(s.DebtPaid, "charged")
	debts.count(s.DebtLost, "lost")
	out.counters("weir_timer_delay_seconds_total", "Total delay of this node's own timers, from a lack of processor time or a pause; timeouts of store calls are extended by it.").set(s.TimerDelay)
	lag := out.gauges("weir_region_lag_seconds", "Age of the oldest admitted units that some other region has not received from this node.")
	capped := out.counters("weir_region_capped_total", "Charges and fetches refused because max_overshoot was used up by units that another region has not received.")
	if len(s.Regions) > 0 {
		lag.set(s.Lag)
		capped.count(s.Capped)
	}
	up := out.gauges("weir_region_up", "1 while the store of another region responds.", "region")
	success := out.gauges("weir_region_last_success_timestamp_seconds", "When the store of another region last responded.", "region")
	synced := out.counters("weir_region_synced_units_total", "Units that this node charged to the store of another region.", "region")
	failed := out.counters("weir_region_request_failures_total", "Calls of the store of another region that failed.", "region")
	for _, r := range s.Regions {
		up.set(oneIf(r.Up), r.Name)
		success.set(float64(r.LastSuccess.UnixMicro())/1e6, r.Name)
		synced.count(r.Synced, r.Name)
		failed.count(r.Failed, r.Name)
	}
}
