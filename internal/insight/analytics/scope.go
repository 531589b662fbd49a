package analytics

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// name is a limit whatever its numbers are: they change, and it is the same.
type name struct{ domain, rule, limit string }

func nameOf(l Limit) name { return name{l.Domain, l.Rule, l.Limit} }

func (n name) String() string { return n.domain + "/" + n.rule + "/" + n.limit }

func compareLimits(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit),
		cmp.Compare(a.Algorithm, b.Algorithm), cmp.Compare(a.Allowance, b.Allowance),
		cmp.Compare(a.PeriodMS, b.PeriodMS), cmp.Compare(a.Burst, b.Burst))
}

// scope is the limits that a question is about.
type scope struct {
	byID map[int64]Limit
	// seen are from when to when the limits were met.
	seen map[int64]span
	// chosen are the limits that are meant; all if all of them are.
	chosen []int64
	all    bool
}

// choose finds the limits that the filters mean.
func (s *scope) choose(a *ask) {
	s.all = a.domains == nil && a.rules == nil && a.limits == nil && a.algorithms == nil
	s.chosen = nil
	for id, l := range s.byID {
		if oneOf(a.domains, l.Domain) && oneOf(a.rules, l.Rule) && oneOf(a.limits, l.Limit) && oneOf(a.algorithms, l.Algorithm) {
			s.chosen = append(s.chosen, id)
		}
	}
	slices.Sort(s.chosen)
}

// limitsOf adds that a row is of a limit that is meant.
func (s *scope) limitsOf(w *where, column string) {
	if s.all {
		return
	}
	w.and(column + " IN (" + ids(s.chosen) + ")")
}

// names returns the limits that are meant, in order.
func (s *scope) names() []name {
	var out []name
	for _, id := range s.chosen {
		if n := nameOf(s.byID[id]); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b name) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// versions returns the numbers in the database of a limit, in the order in which
// its numbers were met last, the newest last.
func (s *scope) versions(n name) []int64 {
	var out []int64
	for _, id := range s.chosen {
		if nameOf(s.byID[id]) == n {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b int64) int {
		return cmp.Or(cmp.Compare(s.seen[a].last, s.seen[b].last), cmp.Compare(s.seen[a].first, s.seen[b].first))
	})
	return out
}

// newest returns the limit with the numbers that were met last.
func (s *scope) newest(n name) Limit {
	v := s.versions(n)
	if len(v) == 0 {
		return Limit{Domain: n.domain, Rule: n.rule, Limit: n.limit}
	}
	return s.byID[v[len(v)-1]]
}

// earliest returns since when anything is told of, now if nothing is.
func (s *scope) earliest(now time.Time) time.Time {
	first := now.Unix()
	for _, seen := range s.seen {
		first = min(first, seen.first)
	}
	return time.Unix(first, 0).UTC()
}
