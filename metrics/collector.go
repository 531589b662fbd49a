package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weirlimit/weir/limits"
)

// collector reads counters when it is asked, and keeps nothing.
type collector struct{ opt Options }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { c.collect(sink{descs: ch}) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(sink{samples: ch}) }

func (c *collector) collect(out sink) {
	opt := &c.opt
	writeMetrics(out, opt.Unasked, func(n int, out sink) {
		out.gauge("weir_rules_unreachable", "Rules that no request can match: no gateway route and no configured proxy sends their domain and descriptors.", float64(n))
	})
	writeMetrics(out, opt.Guesses, func(n uint64, out sink) {
		out.counter("weir_auth_failures_total", "Wrong admin tokens and wrong passwords of Redis clients.", n)
	})
	writeMetrics(out, opt.RefusedBodies, func(n uint64, out sink) {
		out.counter("weir_large_bodies_refused_total", "Requests to the API and gRPC calls refused because unfinished request bodies used all memory reserved for them.", n)
	})
	writeMetrics(out, opt.Unmatched, collectUnmatched)
	writeMetrics(out, opt.Connections, collectConnections)
	writeMetrics(out, opt.Identity, Identity.collect)
	c.collectDecisions(out, c.collectSources(out))
	writeMetrics(out, opt.Store, Store.collect)
	writeMetrics(out, opt.Shared, Shared.collect)
	writeMetrics(out, opt.Redis, Redis.collect)
	writeMetrics(out, opt.Overlay, Overlay.collect)
	writeMetrics(out, opt.Certificates, collectCertificates)
	writeMetrics(out, opt.Telemetry, Telemetry.collect)
	writeMetrics(out, opt.Events, Events.collect)
	writeMetrics(out, opt.Reloads, Reloads.collect)
	build := out.gauges("weir_build_info", "Version of the running binary; always 1.", "version", "revision", "goversion")
	build.set(1, opt.Build.Version, opt.Build.Revision, opt.Build.Go)
}

func collectUnmatched(all []Unmatched, out sink) {
	unmatched := out.counters("weir_unmatched_requests_total", "Requests that matched no rule and were allowed, by domain; domains without rules are summed under (other).", "domain")
	for _, u := range all {
		unmatched.count(u.Requests, u.Domain)
	}
}

func collectConnections(all []Connections, out sink) {
	refused := out.counters("weir_connections_refused_total", "Connections closed on arrival: the client had its maximum of open connections and none was idle (client), the listener had its maximum and none was idle (full), a load balancer of http.proxy_protocol sent no good PROXY header (proxy_missing), or another peer sent one (proxy_unasked).", "listener", "reason")
	closed := out.counters("weir_connections_closed_total", "Open connections closed by a bound: the longest idle one, to make room on the listener (full) or for the same client (client), or an upgraded one without traffic (idle).", "listener", "reason")
	for _, n := range all {
		refused.count(n.RefusedClient, n.Listener, "client")
		refused.count(n.RefusedFull, n.Listener, "full")
		refused.count(n.RefusedProxy, n.Listener, "proxy_missing")
		refused.count(n.RefusedUnasked, n.Listener, "proxy_unasked")
		closed.count(n.ClosedFull, n.Listener, "full")
		closed.count(n.ClosedClient, n.Listener, "client")
		closed.count(n.ClosedIdle, n.Listener, "idle")
	}
}

// collectSources writes the figures of what has limits of its own, and returns all limits:
// those of the rules, of load shedding, and of the Redis protocol.
func (c *collector) collectSources(out sink) (series []limits.Ref) {
	writeMetrics(out, c.opt.Limits, func(all []limits.Ref, out sink) {
		series = all
		out.gauge("weir_limits", "Limits in the current rules.", float64(len(all)))
	})
	writeMetrics(out, c.opt.Shed, func(s Shed, out sink) {
		series = slices.Concat(series, s.Limits)
		s.collect(out)
	})
	writeMetrics(out, c.opt.RESP, func(r RESP, out sink) {
		series = slices.Concat(series, r.Limits)
		r.collect(out)
	})
	return series
}

func (s Store) collect(out sink) {
	out.gauge("weir_store_keys", "Keys with their own state in the store.", float64(s.Keys))
	out.gauge("weir_store_bytes", "Memory that the store uses for state.", float64(s.Bytes))
	out.gauge("weir_store_max_bytes", "Maximum memory that the store may use for state.", float64(s.Bound))
	out.gauge("weir_store_approximate_bytes", "Memory of the sketches of approximate limits.", float64(s.Approximate))
	out.counter("weir_store_overflow_decisions_total", "Decisions made from the overflow sketch because the store was full.", s.Overflowed)
	out.gauge("weir_store_full", "1 while the store is full or was full in the last moments.", oneIf(s.Full))
}

func (r Reloads) collect(out sink) {
	reloads := out.counters("weir_config_reloads_total", "Attempts to load the rules, including the first.", "result")
	reloads.count(r.Succeeded, "success")
	reloads.count(r.Failed, "failure")
	out.gauge("weir_config_reload_success", "1 if the last attempt to load the rules succeeded.", oneIf(r.OK))
	last := out.gauges("weir_config_last_reload_timestamp_seconds", "When the current rules were loaded.")
	if !r.Last.IsZero() {
		last.set(float64(r.Last.UnixMicro()) / 1e6)
	}
}
