package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/rules"
)

// isLimited reports whether the request meets any limit.
func isLimited(x *limits.Explanation) bool {
	if x.Listed != nil {
		return x.Listed.List == "deny"
	}
	return slices.ContainsFunc(x.Descriptors, func(d limits.Step) bool { return len(d.Limits) > 0 })
}

// explanation writes x for a person.
// Guarantees are those of known limits; withTheorems says on what they rest.
func explanation(x *limits.Explanation, known []*weir.Limit, withTheorems bool) string {
	type id struct{ scope, name string }
	byID := make(map[id]*weir.Limit)
	for _, l := range known {
		byID[id{figures.Scope(l.Scope), l.Name}] = l
	}
	var b strings.Builder
	for _, l := range x.Limits {
		fmt.Fprintf(&b, "limit in words: %s\n", l)
	}
	isOfFiles := x.Listed != nil || slices.ContainsFunc(x.Descriptors, func(d limits.Step) bool { return len(d.Levels) > 0 })
	if len(x.Limits) > 0 && !isOfFiles {
		return b.String()
	}
	if !x.Known {
		fmt.Fprintf(&b, "domain %s: there are no rules for it\n", live.Printable(x.Domain))
		return b.String()
	}
	fmt.Fprintf(&b, "domain %s\n", x.Domain)
	if x.Listed != nil {
		fmt.Fprintf(&b, "  %s=%s is on the %s list of the domain\n", x.Listed.Entry.Key, live.Printable(x.Listed.Entry.Value), x.Listed.List)
	}
	for i := range x.Descriptors {
		d := &x.Descriptors[i]
		fmt.Fprintf(&b, "descriptor %d: %s\n", i+1, d.Outcome)
		for _, l := range d.Levels {
			rule := "-"
			if l.Rule != "" {
				rule = l.Rule
			}
			fmt.Fprintf(&b, "  %s=%s  ->  %s\n    %s\n", live.Printable(l.Entry.Key), live.Printable(l.Entry.Value), rule, l.Why)
		}
		fmt.Fprintf(&b, "  %s", d.Why)
		if d.File != "" {
			fmt.Fprintf(&b, " (%s:%d)", d.File, d.Line)
		}
		b.WriteByte('\n')
		for _, name := range d.Replaced {
			fmt.Fprintf(&b, "  %s does not apply: another limit replaces it\n", name)
		}
		for _, m := range d.Limits {
			name := m.Name
			if m.Role == "soft" {
				name += " (soft)" // the other one of its name is the hard threshold
			}
			fmt.Fprintf(&b, "  limit %s\n", name)
			fmt.Fprintf(&b, "    allows     %s\n", m.Limit)
			fmt.Fprintf(&b, "    counts     %s under the key %q\n", units(m.Cost), m.Key)
			if m.Headroom > 0 {
				fmt.Fprintf(&b, "    keeps      %s for higher priorities\n", units(m.Headroom))
			}
			fmt.Fprintf(&b, "    role       %s\n", roles[m.Role])
			if l := byID[id{m.Scope, m.Name}]; l != nil {
				fmt.Fprintf(&b, "    guarantee  %s\n", promise(l, m.Role))
				if theorem, ok := theorems[l.Algorithm.Name()]; ok && withTheorems && !isCostLater(l) && m.Role != "own" && m.Role != "pool" && l.Anchor != params.AnchorCalendar { // months differ in length
					fmt.Fprintf(&b, "    in full    %s\n", theorem)
				}
			}
		}
	}
	return b.String()
}

// isCostLater reports whether what a request costs is known after it: nothing bounds what is
// in flight.
func isCostLater(l *weir.Limit) bool {
	a := l.Adjustment
	return a != nil && (a.Per > 0 || a.Header != "")
}

// promise says what the limit guarantees in a role, with its own numbers.
func promise(l *weir.Limit, role string) string {
	switch role {
	case "shadow":
		return "none: it refuses nothing"
	case "pool":
		return fmt.Sprintf("lends at most %d in any %s; what limits assure is charged to it on top", l.Envelope, rules.FormatPeriod(l.Period))
	}
	if l.Consistency.Mode == params.ConsistencyLocal {
		l = l.From(weir.FromLocal)
	}
	if isCostLater(l) {
		return "none: the cost is known after the request; what is in flight may exceed the limit"
	}
	s := l.Guarantee().String()
	return strings.Replace(s, "in any period", "in any "+rules.FormatPeriod(l.Period), 1)
}

// roles says what each role means.
var roles = map[string]string{
	"enforce": "must allow the request",
	"soft":    "marks the request when it would refuse",
	"shadow":  "counts what it would refuse, refuses nothing",
	"own":     "assured share; the pool is asked beyond it",
	"pool":    "shared pool that is asked beyond the assured share",
	"always":  "counts, refuses nothing",
	"ban":     "refuses while the key is banned for its refusals",
	"deny":    "refuses everything",
}
