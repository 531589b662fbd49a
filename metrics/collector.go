package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir"
)

// collector reads counters when it is asked, and keeps nothing.
type collector struct{ opt Options }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	decisions     = desc("weir_decisions_total", "Decisions under a limit, by what came of them.", "domain", "rule", "limit", "decision")
	limits        = desc("weir_limits", "Limits in the rules in use.")
	unasked       = desc("weir_rules_unasked", "Rules that limit nobody: beside a gateway, or for proxies that ask, nothing that is asked can meet them.")
	unmatched     = desc("weir_unmatched_requests_total", "Requests that met no rule and were let through, by the domain that they asked; those that no rule has are (other).", "domain")
	refusedBodies = desc("weir_large_bodies_refused_total", "Requests to the API and gRPC calls that were refused because unfinished bodies held as much memory as they may.")
	authFailures  = desc("weir_auth_failures_total", "Wrong admin tokens and passwords of Redis clients.")
	connRefused   = desc("weir_connections_refused_total", "Connections that were closed as they came: their client held its share, and none of it was idle (client), or Redis clients held all places, and none was idle (full).", "listener", "reason")
	connClosed    = desc("weir_connections_closed_total", "Connections that were closed by a bound: the one that was idle for longest, as there was no place for a new one (full) or as its client held its share (client), and upgraded ones on which nothing moved (idle).", "listener", "reason")

	overshoot = desc("weir_limit_max_overshoot_units", "Units above its limit that a limit with eventual consistency promises never to exceed.", "domain", "rule", "limit")

	storeKeys     = desc("weir_store_keys", "Keys with state of their own in the store.")
	storeBytes    = desc("weir_store_bytes", "Memory that the store uses for state.")
	storeBound    = desc("weir_store_bound_bytes", "Most memory that the store may use for state.")
	storeSketches = desc("weir_store_approximate_bytes", "Memory of the sketches of approximate limits.")
	storeOverflow = desc("weir_store_overflow_decisions_total", "Decisions made from the overflow sketch because the store was full.")
	storeFull     = desc("weir_store_full", "1 while the store is full, or was a moment ago.")

	sketchBytes     = desc("weir_sketch_bytes", "Memory of the sketch of an approximate limit.", "domain", "rule", "limit")
	sketchBound     = desc("weir_sketch_error_bound_units", "Units by which a key is over-estimated at most, but for a chance of e^-depth.", "domain", "rule", "limit")
	sketchMean      = desc("weir_sketch_error_mean_units", "Measured mean over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	sketchMax       = desc("weir_sketch_error_max_units", "Measured largest over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	sketchFalse     = desc("weir_sketch_false_positives_ratio", "Measured share of false positives of the Bloom filter.", "domain", "rule", "limit")
	sketchFalseSaid = desc("weir_sketch_false_positives_expected_ratio", "Share of false positives that follows from how full the Bloom filter is.", "domain", "rule", "limit")

	reloads      = desc("weir_config_reloads_total", "Attempts to load the rules, the first included.", "result")
	reloadOK     = desc("weir_config_reload_success", "1 if the last attempt to load the rules succeeded.")
	reloadedLast = desc("weir_config_last_reload_timestamp_seconds", "When the rules in use were loaded.")

	buildInfo = desc("weir_build_info", "The binary that runs; always 1.", "version", "revision", "goversion")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{decisions, limits, unasked, unmatched, overshoot, storeKeys, storeBytes, storeBound, storeSketches,
		storeOverflow, storeFull, sketchBytes, sketchBound, sketchMean, sketchMax, sketchFalse, sketchFalseSaid, reloads, reloadOK, reloadedLast, buildInfo} {
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
	var series []Series
	if c.opt.Limits != nil {
		series = c.opt.Limits()
		gauge(limits, float64(len(series)))
	}
	if c.opt.Unasked != nil {
		gauge(unasked, float64(c.opt.Unasked()))
	}
	if c.opt.Unmatched != nil {
		for _, u := range c.opt.Unmatched() {
			counter(unmatched, u.Requests, u.Domain)
		}
	}
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
	if len(series) > 0 {
		sums := c.sum(series)
		for k, sum := range sums {
			counts := sum.counts
			for _, o := range weir.Outcomes() {
				// The two everyday outcomes are always there, so that a rate
				// can be taken from the first scrape on.
				if counts[o] > 0 || o == weir.Allowed || o == weir.Refused {
					counter(decisions, counts[o], k.domain, k.rule, k.limit, o.String())
				}
			}
			if sum.overshoot > 0 {
				gauge(overshoot, float64(sum.overshoot), k.domain, k.rule, k.limit)
			}
			if sum.sketched == nil || c.opt.Sketch == nil {
				continue
			}
			if s, ok := c.opt.Sketch(sum.sketched); ok {
				labels := []string{k.domain, k.rule, k.limit}
				gauge(sketchBytes, float64(s.Bytes), labels...)
				gauge(sketchBound, s.Bound, labels...)
				gauge(sketchMean, s.MeanError, labels...)
				gauge(sketchMax, float64(s.MaxError), labels...)
				gauge(sketchFalse, s.FalsePositives(), labels...)
				gauge(sketchFalseSaid, s.BloomExpected, labels...)
			}
		}
	}
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
	b := c.opt.Build
	gauge(buildInfo, 1, b.Version, b.Revision, b.Go)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// label is what tells one series from another.
type label struct{ domain, rule, limit string }

// other is the rule name of the limits beyond MaxSeries.
const other = "(other)"

// sum is what the limits of one label have counted.
type sum struct {
	// counts is by weir.Outcome.
	counts []uint64
	// overshoot is the largest that one of them promises.
	overshoot int64
	// sketched is the first approximate limit among them.
	sketched *weir.Limit
}

// sum adds up the counters of limits that go by the same words: a registry
// refuses to tell the same series twice.
func (c *collector) sum(series []Series) map[label]*sum {
	outcomes := weir.Outcomes()
	sums := make(map[label]*sum, min(len(series), c.opt.MaxSeries))
	// Limits may share counters; each is read once.
	seen := make(map[*weir.Counters]bool, len(series))
	for _, s := range series {
		counters := s.Limit.Counters()
		if counters == nil || seen[counters] {
			continue
		}
		seen[counters] = true
		k := label{valid(s.Domain), valid(s.Rule), valid(s.Limit.Name)}
		if sums[k] == nil && len(sums) >= c.opt.MaxSeries {
			k = label{rule: other}
		}
		at := sums[k]
		if at == nil {
			at = &sum{counts: make([]uint64, weir.Degraded+1)}
			sums[k] = at
		}
		for _, o := range outcomes {
			at.counts[o] += counters.Load(o)
		}
		eventual := s.Limit.Consistency.Mode == weir.ConsistencyEventual ||
			c.opt.Regions && s.Limit.Consistency.Mode == weir.ConsistencyDefault && s.Limit.Traits()&weir.Lends != 0
		if eventual && c.opt.Shared != nil {
			at.overshoot = max(at.overshoot, s.Limit.Overshoot())
		}
		if at.sketched == nil && k.rule != other && s.Limit.Traits()&weir.Sketches != 0 {
			at.sketched = s.Limit
		}
	}
	return sums
}

// valid returns s as a label value: Prometheus refuses other than UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
