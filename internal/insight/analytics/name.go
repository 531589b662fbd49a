package analytics

import "cmp"

// name is a limit whatever its numbers are: they change, and it is the same.
type name struct{ domain, rule, limit string }

func nameOf(l Limit) name { return name{l.Domain, l.Rule, l.Limit} }

func (n name) String() string { return n.domain + "/" + n.rule + "/" + n.limit }

func compareLimits(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Algorithm, b.Algorithm),
		cmp.Compare(a.Allowance, b.Allowance), cmp.Compare(a.PeriodMS, b.PeriodMS), cmp.Compare(a.Burst, b.Burst))
}
