package metrics

import "github.com/prometheus/client_golang/prometheus"

// Shared is what a node says of the store that it shares with others.
type Shared struct {
	// Nodes is how many share it, as far as this one knows.
	Nodes int64
	// Reached: the store was opened and checked, at the start or since.
	Reached bool
	// Away: the store does not answer, and nobody waits for it.
	Away bool
	// Calls were made; Failed of them failed, Late of those for want of an answer
	// in time. Busy counts decisions that found no room for a call.
	Calls, Failed, Late, Busy uint64
	// Combined counts spends that went along in the call of another, Recalled those
	// answered by a remembered refusal, Held those made from units that the node had
	// fetched before, in Fetched calls.
	Combined, Recalled, Held, Fetched uint64
	// Leases counts keys with fetched units, LeasedUnits those units.
	Leases, LeasedUnits int64
	// Returned and Stranded count fetched units that nobody spent: given back, and
	// not.
	Returned, Stranded uint64
	// Overshot is the most units above a limit that one with eventual consistency
	// was seen to have admitted.
	Overshot int64
	// Degraded counts requests that were decided by their limits' failure
	// policies.
	Degraded uint64
	// Debts counts keys with spent units that the store was not told of, DebtPaid
	// and DebtLost the units it was told of since, and never will be.
	Debts              int64
	DebtPaid, DebtLost uint64
	// Regions are the others, where there are several. Lag is for how many seconds one
	// of them has not been told of something at worst, and Capped counts how often
	// units were not admitted as one had to be told first.
	Regions []Region
	Lag     float64
	// NodeLate is for how many seconds this node's own timers were late in all.
	NodeLate float64
	Capped   uint64
}

// Region is what a node says of another region.
type Region struct {
	Name string
	// Away: it does not answer. Silent is for how many seconds it has not.
	Away   bool
	Silent float64
	// Told counts the units it was told of, Unanswered the calls it did not answer.
	Told, Unanswered uint64
}

var (
	sharedNodes    = desc("weir_shared_store_nodes", "Nodes that share the store, as far as this one knows.")
	sharedReached  = desc("weir_shared_store_reached", "1 once the shared store was reached and checked; 0 on a node that started without it and still waits for it.")
	sharedAway     = desc("weir_shared_store_away", "1 while the shared store does not answer and nobody waits for it.")
	sharedCalls    = desc("weir_shared_store_calls_total", "Calls of the shared store, by what came of them.", "result")
	sharedSaved    = desc("weir_shared_store_calls_saved_total", "Decisions that needed no call of their own: from units fetched before (lease), by a remembered refusal (refusal), or in the call of another (combined).", "by")
	sharedFetched  = desc("weir_shared_store_fetches_total", "Calls that fetched units ahead.")
	sharedBusy     = desc("weir_shared_store_busy_total", "Decisions that found too many calls under way.")
	sharedLeases   = desc("weir_shared_store_lease_keys", "Keys of which this node holds units.")
	sharedUnits    = desc("weir_shared_store_lease_units", "Units that this node holds.")
	sharedUnspent  = desc("weir_shared_store_unspent_units_total", "Fetched units that nobody spent, by whether they were given back.", "result")
	sharedOvershot = desc("weir_shared_store_overshoot_max_units", "Most units above its limit that an eventual limit was seen to have admitted; weir_limit_max_overshoot_units is what each promises.")
	sharedDegraded = desc("weir_degraded_decisions_total", "Requests decided by on_store_error because the shared store did not answer.")
	sharedDebts    = desc("weir_shared_store_debt_keys", "Keys with spent units that the shared store has not been told of.")
	sharedNodeLate = desc("weir_shared_store_node_late_seconds_total", "How late this node's own timers were, as it was short of processor time or stopped: so much longer the shared store was waited for.")
	regionLag      = desc("weir_region_lag_seconds", "For how long some other region has not been told of something that this node knows was admitted in its own.")
	regionCapped   = desc("weir_region_capped_total", "Spends and fetches that were refused, as another region had to be told first: max_overshoot is used up by what it does not know.")
	regionAway     = desc("weir_region_away", "1 while the store of another region does not answer.", "region")
	regionSilent   = desc("weir_region_silent_seconds", "Since when the store of another region has answered nothing.", "region")
	regionTold     = desc("weir_region_told_units_total", "Units that another region was told of by this node.", "region")
	regionFailed   = desc("weir_region_unanswered_total", "Calls that another region did not answer.", "region")
	sharedSettled  = desc("weir_shared_store_debt_units_total", "Units spent while the shared store was away, by whether it was told of them since.", "result")
)

var sharedDescs = []*prometheus.Desc{sharedNodes, sharedReached, sharedAway, sharedCalls, sharedSaved, sharedFetched, sharedBusy,
	sharedLeases, sharedUnits, sharedUnspent, sharedOvershot, sharedDegraded, sharedDebts, sharedSettled, sharedNodeLate,
	regionLag, regionCapped, regionAway, regionSilent, regionTold, regionFailed}

func (s *Shared) collect(ch chan<- prometheus.Metric, counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(sharedNodes, float64(s.Nodes))
	gauge(sharedReached, oneIf(s.Reached))
	gauge(sharedAway, oneIf(s.Away))
	// Counted one after the other, a failure can be seen before its call.
	counter(sharedCalls, s.Calls-min(s.Failed, s.Calls), "ok")
	counter(sharedCalls, s.Failed-min(s.Late, s.Failed), "error")
	counter(sharedCalls, s.Late, "timeout")
	counter(sharedSaved, s.Held-min(s.Fetched, s.Held), "lease")
	counter(sharedSaved, s.Recalled, "refusal")
	counter(sharedSaved, s.Combined, "combined")
	counter(sharedFetched, s.Fetched)
	counter(sharedBusy, s.Busy)
	gauge(sharedLeases, float64(s.Leases))
	gauge(sharedUnits, float64(s.LeasedUnits))
	counter(sharedUnspent, s.Returned, "returned")
	counter(sharedUnspent, s.Stranded, "stranded")
	gauge(sharedOvershot, float64(s.Overshot))
	counter(sharedDegraded, s.Degraded)
	gauge(sharedDebts, float64(s.Debts))
	counter(sharedSettled, s.DebtPaid, "paid")
	counter(sharedSettled, s.DebtLost, "lost")
	ch <- prometheus.MustNewConstMetric(sharedNodeLate, prometheus.CounterValue, s.NodeLate)
	if len(s.Regions) == 0 {
		return
	}
	gauge(regionLag, s.Lag)
	counter(regionCapped, s.Capped)
	for _, r := range s.Regions {
		gauge(regionAway, oneIf(r.Away), r.Name)
		gauge(regionSilent, r.Silent, r.Name)
		counter(regionTold, r.Told, r.Name)
		counter(regionFailed, r.Unanswered, r.Name)
	}
}
