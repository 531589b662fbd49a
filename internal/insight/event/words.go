package event

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/limits"
)

// LimitRef says which limit is meant, in the words of the rules file, and what it
// allows.
type LimitRef struct {
	limits.Name
	// Algorithm is the word for it in rules.
	Algorithm string `json:"algorithm"`
	// Allowance is how many units a period of PeriodMS has; Burst is the most that
	// passes at once.
	Allowance int64 `json:"allowance"`
	PeriodMS  int64 `json:"period_ms"`
	Burst     int64 `json:"burst"`
}

// words finds the words for limits. Limits that stand for one another (a soft
// threshold, an override, the same limit before and after a reload) count on the
// same counters, and have the same words.
type words map[*weir.Counters]limits.Ref

// addLimits notes the words of limits.
func (w words) addLimits(limits []limits.Ref) {
	for _, s := range limits {
		w[s.Limit.Counters()] = s
	}
}

func (w words) refOfLimit(l *weir.Limit) LimitRef {
	s, ok := w[l.Counters()]
	if !ok {
		s.Rule = figures.Scope(l.Scope) // of a rule that is gone, or of none
		if domain, key, ok := strings.Cut(strings.TrimSuffix(s.Rule, " banned"), "/"); ok && l.RefusesAll() {
			s.Domain, s.Rule = domain, key
		}
	}
	s.Limit = l
	return LimitRefOf(s)
}

// LimitRefOf returns the place of a limit.
func LimitRefOf(s limits.Ref) LimitRef {
	l := s.Limit
	if l.RefusesAll() {
		return LimitRef{Name: s.Name()}
	}
	return LimitRef{
		Name: s.Name(), Algorithm: l.Algorithm.Name(),
		Allowance: l.Count, PeriodMS: l.Period.Milliseconds(), Burst: l.Burst,
	}
}
