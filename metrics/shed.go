package metrics

import "github.com/weirlimit/weir/limits"

// Shed is the state of a load shedder.
type Shed struct {
	// Limits are those whose counters have what was shed.
	Limits []limits.Ref
	// Active is false while the kill switch is on.
	Active bool
	// Limiters are the four.
	Limiters []Limiter
	// InFlight counts the requests that hold a place on this node,
	// ShadowInFlight those under way that a shadow would have refused.
	InFlight, ShadowInFlight int64
	// Thresholds are by class.
	Thresholds []Threshold
	// UnknownUsers and WithoutLease count requests that met no limit per user,
	// or none on how many run at once.
	UnknownUsers, WithoutLease uint64
}

// Limiter is one limiter of a load shedder.
type Limiter struct {
	// Mode is what it does at present: enforce, shadow or off.
	Name, Mode string
}

// Threshold is how many requests may be under way before a class is refused.
type Threshold struct {
	Class    string
	Requests int64
}

// collect sends all but the limits, which are sent with those of the rules.
func (s Shed) collect(out sink) {
	out.gauge("weir_shed_active", "1 while load shedding works; 0 while its kill switch is on.", oneIf(s.Active))
	modes := out.gauges("weir_shed_mode", "1 for the current mode of each load shedding limiter: enforce, shadow or off.", "limiter", "mode")
	for _, l := range s.Limiters {
		for _, mode := range []string{"enforce", "shadow", "off"} {
			modes.set(oneIf(l.Mode == mode), l.Name, mode)
		}
	}
	out.gauge("weir_shed_in_flight_requests", "Requests in flight on this node.", float64(s.InFlight))
	out.gauge("weir_shed_shadow_in_flight_requests", "Further requests in flight on this node that would have been refused in mode enforce.", float64(s.ShadowInFlight))
	thresholds := out.gauges("weir_shed_threshold_requests", "Requests in flight on this node from which the class is refused.", "class")
	for _, t := range s.Thresholds {
		thresholds.set(float64(t.Requests), t.Class)
	}
	unmatched := out.counters("weir_shed_unmatched_total", "Requests without a limit per user (unknown_user) or without a concurrency limit (no_permit).", "reason")
	unmatched.count(s.UnknownUsers, "unknown_user")
	unmatched.count(s.WithoutLease, "no_permit")
}
