package node

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/shed"
)

// isShedLimit returns a function that reports whether a limit is one of the load
// shedder's.
func isShedLimit(sh *shed.Shedder) func(*weir.Limit) bool {
	all := map[*weir.Limit]bool{}
	for _, l := range sh.Refs() {
		all[l.Limit] = true
	}
	return func(l *weir.Limit) bool { return all[l] }
}

// refs lists the limits of the rules and of the load shedder.
func (s *Server) refs() []limits.Ref {
	all := s.rules.currentLimits().Refs()
	if s.shed != nil {
		all = append(all, s.shed.Refs()...)
	}
	return all
}

// shedMetrics returns the state of the load shedder.
func shedMetrics(sh *shed.Shedder) metrics.Shed {
	st := sh.State()
	m := metrics.Shed{Active: !st.Off, UnknownUsers: st.UnknownUsers, WithoutLease: st.WithoutLease, Limits: sh.Refs()}
	for _, l := range st.Limiters {
		m.Limiters = append(m.Limiters, metrics.Limiter{Name: l.Name, Mode: l.Mode.String()})
		if l.InFlight == nil {
			continue
		}
		m.InFlight, m.ShadowInFlight = *l.InFlight, *l.ShadowInFlight
		for _, c := range l.Classes {
			m.Thresholds = append(m.Thresholds, metrics.Threshold{Class: c.Class, Requests: *c.Threshold})
		}
	}
	return m
}

// defaultPlan returns the plan of requests that no route matches, with the priority
// of what nobody has thought about: without routes, what the rules are matched by,
// else the client's address.
func (s *Server) defaultPlan() (*identity.Plan, error) {
	if len(s.conf.Routes) == 0 {
		return s.identity.RulePlan(s.overlay, s.conf.DefaultPriority()), nil
	}
	rs, err := s.identity.Routes([]identity.Route{{Priority: s.conf.DefaultPriority()}})
	if err != nil {
		return nil, err
	}
	return rs.Plan(0), nil
}
