package metrics

import "github.com/prometheus/client_golang/prometheus"

// collector reads counters when it is asked, and keeps nothing.
type collector struct{ opt Options }

var (
	decisions     = desc("weir_decisions_total", "Decisions under a limit, by outcome.", "domain", "rule", "limit", "decision")
	limits        = desc("weir_limits", "Limits in the current rules.")
	unasked       = desc("weir_rules_unreachable", "Rules that no request can match: no gateway route and no configured proxy sends their domain and descriptors.")
	unmatched     = desc("weir_unmatched_requests_total", "Requests that matched no rule and were allowed, by domain; domains without rules are summed under (other).", "domain")
	refusedBodies = desc("weir_large_bodies_refused_total", "Requests to the API and gRPC calls refused because unfinished request bodies used all memory reserved for them.")
	authFailures  = desc("weir_auth_failures_total", "Wrong admin tokens and wrong passwords of Redis clients.")
	connRefused   = desc("weir_connections_refused_total", "Connections closed on arrival: the client had its maximum of open connections and none was idle (client), or the listener had its maximum and none was idle (full).", "listener", "reason")
	connClosed    = desc("weir_connections_closed_total", "Open connections closed by a bound: the longest idle one, to make room on the listener (full) or for the same client (client), or an upgraded one without traffic (idle).", "listener", "reason")

	overshoot = desc("weir_limit_max_overshoot_units", "Largest number of units by which a limit with eventual consistency can exceed its limit.", "domain", "rule", "limit")

	storeKeys     = desc("weir_store_keys", "Keys with their own state in the store.")
	storeBytes    = desc("weir_store_bytes", "Memory that the store uses for state.")
	storeBound    = desc("weir_store_max_bytes", "Maximum memory that the store may use for state.")
	storeSketches = desc("weir_store_approximate_bytes", "Memory of the sketches of approximate limits.")
	storeOverflow = desc("weir_store_overflow_decisions_total", "Decisions made from the overflow sketch because the store was full.")
	storeFull     = desc("weir_store_full", "1 while the store is full or was full in the last moments.")

	sketchBytes         = desc("weir_sketch_bytes", "Memory of the sketch of an approximate limit.", "domain", "rule", "limit")
	sketchBound         = desc("weir_sketch_error_bound_units", "Upper bound of the over-estimate of a key, with probability 1 - e^-depth.", "domain", "rule", "limit")
	sketchMean          = desc("weir_sketch_error_mean_units", "Measured mean over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	sketchMax           = desc("weir_sketch_error_max_units", "Measured largest over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	sketchFalse         = desc("weir_sketch_false_positives_ratio", "Measured ratio of false positives of the Bloom filter.", "domain", "rule", "limit")
	sketchFalseExpected = desc("weir_sketch_false_positives_expected_ratio", "Ratio of false positives expected from the fill of the Bloom filter.", "domain", "rule", "limit")

	reloads      = desc("weir_config_reloads_total", "Attempts to load the rules, including the first.", "result")
	reloadOK     = desc("weir_config_reload_success", "1 if the last attempt to load the rules succeeded.")
	reloadedLast = desc("weir_config_last_reload_timestamp_seconds", "When the current rules were loaded.")

	buildInfo = desc("weir_build_info", "Version of the running binary; always 1.", "version", "revision", "goversion")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{decisions, limits, unasked, unmatched, overshoot, storeKeys, storeBytes, storeBound, storeSketches,
		storeOverflow, storeFull, sketchBytes, sketchBound, sketchMean, sketchMax, sketchFalse, sketchFalseExpected, reloads, reloadOK, reloadedLast, buildInfo} {
		ch <- d
	}
	for _, d := range shedDescs {
		ch <- d
	}
	for _, d := range respDescs {
		ch <- d
	}
	for _, d := range sharedDescs {
		ch <- d
	}
	for _, d := range redisDescs {
		ch <- d
	}
	for _, d := range overlayDescs {
		ch <- d
	}
	for _, d := range telemetryDescs {
		ch <- d
	}
	ch <- certificateExpires
	ch <- authFailures
	ch <- refusedBodies
	ch <- connRefused
	ch <- connClosed
	ch <- identityFailures
	ch <- untrustedFields
	for _, d := range eventsDescs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	c.collectRules(counter, gauge)
	c.collectListeners(counter)
	c.collectDecisions(c.collectSources(counter, gauge), counter, gauge)
	c.collectStores(ch, counter, gauge)
	c.collectOperation(counter, gauge)
	b := c.opt.Build
	gauge(buildInfo, 1, b.Version, b.Revision, b.Go)
}

// collectRules writes what rules were asked, and what no rule matched.
func (c *collector) collectRules(counter writeCounter, gauge writeGauge) {
	if c.opt.Unasked != nil {
		gauge(unasked, float64(c.opt.Unasked()))
	}
	if c.opt.Unmatched != nil {
		for _, u := range c.opt.Unmatched() {
			counter(unmatched, u.Requests, u.Domain)
		}
	}
}

// collectListeners writes what was refused before a decision: guesses, bodies, connections
// and identities.
func (c *collector) collectListeners(counter writeCounter) {
	if c.opt.Guesses != nil {
		counter(authFailures, c.opt.Guesses())
	}
	if c.opt.RefusedBodies != nil {
		counter(refusedBodies, c.opt.RefusedBodies())
	}
	if c.opt.Connections != nil {
		for _, n := range c.opt.Connections() {
			counter(connRefused, n.RefusedClient, n.Listener, "client")
			counter(connRefused, n.RefusedFull, n.Listener, "full")
			counter(connClosed, n.ClosedFull, n.Listener, "full")
			counter(connClosed, n.ClosedClient, n.Listener, "client")
			counter(connClosed, n.ClosedIdle, n.Listener, "idle")
		}
	}
	if c.opt.Identity != nil {
		i := c.opt.Identity()
		i.collect(counter)
	}
}

// collectSources writes the figures of what has limits of its own, and returns all limits:
// those of the rules, of load shedding, and of the Redis protocol.
func (c *collector) collectSources(counter writeCounter, gauge writeGauge) (series []Series) {
	if c.opt.Limits != nil {
		series = c.opt.Limits()
		gauge(limits, float64(len(series)))
	}
	if c.opt.Shed != nil {
		s := c.opt.Shed()
		// Copied: the list of the rules is not ours.
		series = append(series[:len(series):len(series)], s.Limits...)
		s.collect(counter, gauge)
	}
	if c.opt.RESP != nil {
		r := c.opt.RESP()
		series = append(series[:len(series):len(series)], r.Limits...)
		r.collect(counter, gauge)
	}
	return series
}

// collectStores writes the figures of the node's store, of the shared one and of Redis.
func (c *collector) collectStores(ch chan<- prometheus.Metric, counter writeCounter, gauge writeGauge) {
	if c.opt.Store != nil {
		s := c.opt.Store()
		gauge(storeKeys, float64(s.Keys))
		gauge(storeBytes, float64(s.Bytes))
		gauge(storeBound, float64(s.Bound))
		gauge(storeSketches, float64(s.Approximate))
		counter(storeOverflow, s.Overflowed)
		gauge(storeFull, oneIf(s.Full))
	}
	if c.opt.Shared != nil {
		s := c.opt.Shared()
		s.collect(ch, counter, gauge)
	}
	if c.opt.Redis != nil {
		s := c.opt.Redis()
		s.collect(counter, gauge)
	}
}

// collectOperation writes changes by operators, certificates, telemetry, events and reloads.
func (c *collector) collectOperation(counter writeCounter, gauge writeGauge) {
	if c.opt.Overlay != nil {
		s := c.opt.Overlay()
		s.collect(gauge)
	}
	if c.opt.Certificates != nil {
		collectCertificates(c.opt.Certificates(), gauge)
	}
	if c.opt.Telemetry != nil {
		s := c.opt.Telemetry()
		s.collect(counter)
	}
	if c.opt.Events != nil {
		e := c.opt.Events()
		e.collect(counter, gauge)
	}
	if c.opt.Reloads != nil {
		r := c.opt.Reloads()
		counter(reloads, r.Succeeded, "success")
		counter(reloads, r.Failed, "failure")
		gauge(reloadOK, oneIf(r.OK))
		if !r.Last.IsZero() {
			gauge(reloadedLast, float64(r.Last.UnixMicro())/1e6)
		}
	}
}
