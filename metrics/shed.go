package metrics

import "github.com/prometheus/client_golang/prometheus"

// Shed is what a load shedder says of itself.
type Shed struct {
	// Limits are those whose counters tell what was shed.
	Limits []Series
	// Off reports whether the kill switch is thrown.
	Off bool
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

var (
	shedOff        = desc("weir_shed_off", "1 while the kill switch of load shedding is thrown.")
	shedMode       = desc("weir_shed_mode", "1 for what each limiter of load shedding does: enforce, shadow or off.", "limiter", "mode")
	shedInFlight   = desc("weir_shed_in_flight_requests", "Requests under way on this node.")
	shedShadow     = desc("weir_shed_shadow_in_flight_requests", "Further requests under way on this node, which a shadow would have refused.")
	shedThresholds = desc("weir_shed_threshold_requests", "Requests that may be under way on this node before the class is refused.", "class")
	shedUnmatched  = desc("weir_shed_unmatched_total", "Requests that met no limit per user (unknown_user), or none on how many run at once (no_lease).", "reason")
)

var shedDescs = []*prometheus.Desc{shedOff, shedMode, shedInFlight, shedShadow, shedThresholds, shedUnmatched}

// collect tells all but the limits, which are told with those of the rules.
func (s *Shed) collect(counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(shedOff, oneIf(s.Off))
	for _, l := range s.Limiters {
		for _, mode := range []string{"enforce", "shadow", "off"} {
			gauge(shedMode, oneIf(l.Mode == mode), l.Name, mode)
		}
	}
	gauge(shedInFlight, float64(s.InFlight))
	gauge(shedShadow, float64(s.ShadowInFlight))
	for _, t := range s.Thresholds {
		gauge(shedThresholds, float64(t.Requests), t.Class)
	}
	counter(shedUnmatched, s.UnknownUsers, "unknown_user")
	counter(shedUnmatched, s.WithoutLease, "no_lease")
}
