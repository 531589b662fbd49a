package analytics

import (
	"slices"
	"strings"
)

// name is a limit whatever its numbers are: they change, and it is the same.
type name struct{ domain, rule, limit string }

func nameOf(l Limit) name { return name{l.Domain, l.Rule, l.Limit} }

func (n name) String() string { return n.domain + "/" + n.rule + "/" + n.limit }

// names returns the limits that are meant, in order.
func (r *reader) names() []name {
	var out []name
	for _, id := range r.chosen {
		if n := nameOf(r.limits[id]); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b name) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// versions returns the numbers in the database of a limit, in the order in which
// its numbers were met last, the newest last.
func (r *reader) versions(n name) []int64 {
	var out []int64
	for _, id := range r.chosen {
		if nameOf(r.limits[id]) == n {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b int64) int {
		x, y := r.seen[a], r.seen[b]
		if x.last != y.last {
			return int(min(max(x.last-y.last, -1), 1))
		}
		return int(min(max(x.first-y.first, -1), 1))
	})
	return out
}

// newest returns the limit with the numbers that were met last.
func (r *reader) newest(n name) Limit {
	v := r.versions(n)
	if len(v) == 0 {
		return Limit{Domain: n.domain, Rule: n.rule, Limit: n.limit}
	}
	return r.limits[v[len(v)-1]]
}
