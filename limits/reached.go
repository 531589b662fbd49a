package limits

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Decides reports whether the rule itself can refuse something; else it only leads to
// others, or lets pass.
func (r *Rule) Decides() bool {
	return r.Deny != nil || slices.ContainsFunc(r.All(), func(l *Limit) bool { return !l.Unlimited })
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

// Meets reports whether a descriptor of these keys, with some values, can meet a
// limit or a deny list of the domain. If not, nothing limits who is asked about by
// it alone.
func (s *Set) Meets(domain string, keys []string) bool {
	if slices.ContainsFunc(layersOf(s, domain), func(l *Layer) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return l.Deny[key] != nil })
	}) {
		return true
	}
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		if r.Domain != domain || len(r.Keys) > len(keys) || !slices.Equal(r.Keys, keys[:len(r.Keys)]) {
			return false
		}
		rest := keys[len(r.Keys):]
		last := len(rest) == 0 || len(rest) == 1 && r.TierBy != "" && rest[0] == r.TierBy
		return last && r.decides() || r.Deny != nil
	})
}

// Reaches reports whether a descriptor with these entries ends at r, if those of which
// no value is known have one that leads there. A rule with a deny list alone is reached
// by longer ones too.
func (s *Set) Reaches(r *Rule, entries []weir.Entry, known func(i int) bool) bool {
	return slices.ContainsFunc(layersOf(s, r.Domain), func(l *Layer) bool { return l.reaches(r, entries, known) })
}

func (l *Layer) reaches(r *Rule, entries []weir.Entry, known func(i int) bool) bool {
	chain := r.Chain()
	if len(entries) < len(chain) {
		return false
	}
	lv := &l.root
	for i, rule := range chain {
		e := &entries[i]
		if b := lv.branchFor(e.Key); b == nil || !b.hasRule(rule) {
			return false
		}
		if known(i) {
			if found, _ := lv.matchEntry(e); found != rule {
				return false
			}
		}
		if rule != r && rule.endsDescriptor(entries[i+1:]) {
			return false // the descriptor ends there
		}
		lv = &rule.kids
	}
	return r.endsDescriptor(entries[len(chain):]) || r.Deny != nil && len(r.Limits) == 0
}

// Listed returns the keys that the deny and the allow lists of a domain look at, each
// sorted.
func (s *Set) Listed(domain string) (deny, allow []string) {
	for _, l := range layersOf(s, domain) {
		deny, allow = append(deny, slices.Collect(maps.Keys(l.Deny))...), append(allow, slices.Collect(maps.Keys(l.Allow))...)
	}
	slices.Sort(deny)
	slices.Sort(allow)
	return slices.Compact(deny), slices.Compact(allow)
}
