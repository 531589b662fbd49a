package query

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/limits"
)

// Name is a limit whatever its numbers are: they change, and it is the same.
type Name limits.Name

// LimitName returns the name of a limit.
func LimitName(l rows.Limit) Name { return Name(l.Name) }

// String returns it as reports tell it.
func (n Name) String() string { return n.Domain + "/" + n.Rule + "/" + n.Limit }

// scope is the limits that a question is about.
type scope struct {
	ByID map[int64]rows.Limit
	// seen are from when to when the limits were met.
	seen map[int64]rows.Span
	// Chosen are the limits that are meant; all if all of them are.
	Chosen []int64
	all    bool
}

// filterLimits finds the limits that the filters mean.
func (s *scope) filterLimits(a *Ask) {
	s.all = a.domains == nil && a.rules == nil && a.limits == nil && a.algorithms == nil
	s.Chosen = nil
	for id, l := range s.ByID {
		if isOneOf(a.domains, l.Domain) && isOneOf(a.rules, l.Rule) && isOneOf(a.limits, l.Limit) && isOneOf(a.algorithms, l.Algorithm) {
			s.Chosen = append(s.Chosen, id)
		}
	}
	slices.Sort(s.Chosen)
}

// AddLimits adds that a row is of a limit that is meant.
func (s *scope) AddLimits(w *Where, column string) {
	if s.all {
		return
	}
	w.AddCondition(column + " IN (" + listIDs(s.Chosen) + ")")
}

// ListNames returns the limits that are meant, in order.
func (s *scope) ListNames() []Name {
	var out []Name
	for _, id := range s.Chosen {
		if n := LimitName(s.ByID[id]); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Name) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// ListVersions returns the numbers in the database of a limit, in the order in which
// its numbers were met last, the newest last.
func (s *scope) ListVersions(n Name) []int64 {
	var out []int64
	for _, id := range s.Chosen {
		if LimitName(s.ByID[id]) == n {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b int64) int {
		return cmp.Or(cmp.Compare(s.seen[a].Last, s.seen[b].Last), cmp.Compare(s.seen[a].First, s.seen[b].First))
	})
	return out
}

// FindNewest returns the limit with the numbers that were met last.
func (s *scope) FindNewest(n Name) rows.Limit {
	v := s.ListVersions(n)
	if len(v) == 0 {
		return rows.Limit{Name: limits.Name(n)}
	}
	return s.ByID[v[len(v)-1]]
}

// FindEarliest returns since when anything is told of, now if nothing is.
func (s *scope) FindEarliest(now time.Time) time.Time {
	first := now.Unix()
	for _, seen := range s.seen {
		first = min(first, seen.First)
	}
	return time.Unix(first, 0).UTC()
}

// isOneOf reports whether a word is one of those that are asked for.
func isOneOf[T comparable](list []T, word T) bool { return list == nil || slices.Contains(list, word) }
