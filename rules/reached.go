package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Decides reports whether the rule itself can refuse something; else it only leads to
// others, or lets pass.
func (r *Rule) Decides() bool {
	return r.deny != nil || slices.ContainsFunc(r.All(), func(l *Limit) bool { return !l.Unlimited })
}

// Chain returns the rules that lead to r, r itself the last.
func (r *Rule) Chain() []*Rule {
	if r.Parent == nil {
		return []*Rule{r}
	}
	return append(r.Parent.Chain(), r)
}

// Example returns a value that the rule is for.
func (r *Rule) Example() string {
	if r.Value == "" {
		return "x"
	}
	return strings.ReplaceAll(r.Value, "*", "x")
}

// Reaches reports whether a descriptor with these entries ends at r, if those of which
// no value is known have one that leads there. A rule with a deny list alone is reached
// by longer ones too.
func (s *Set) Reaches(r *Rule, entries []weir.Entry, known func(i int) bool) bool {
	d := s.domains[r.Domain]
	chain := r.Chain()
	if d == nil || len(entries) < len(chain) {
		return false
	}
	lv := &d.root
	for i, rule := range chain {
		e := &entries[i]
		if e.Key != rule.Key {
			return false
		}
		if known(i) {
			if found, _ := lv.find(e); found != rule {
				return false
			}
		}
		if rule != r && rule.isLast(entries[i+1:]) {
			return false // the descriptor ends there
		}
		lv = &rule.kids
	}
	return r.isLast(entries[len(chain):]) || r.deny != nil && len(r.Limits) == 0
}

// Listed returns the keys that the deny and the allow lists of a domain look at, each
// sorted.
func (s *Set) Listed(domain string) (deny, allow []string) {
	if d := s.domains[domain]; d != nil {
		deny, allow = slices.Sorted(maps.Keys(d.deny)), slices.Sorted(maps.Keys(d.allow))
	}
	return deny, allow
}

// File returns the file that a domain is in, the first of several.
func (s *Set) File(domain string) string {
	if d := s.domains[domain]; d != nil {
		return d.file
	}
	return ""
}
