package limits

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spell"
)

var _ weir.Catalog = (*Set)(nil)

// Exempts implements [weir.Catalog]: it reports whether r meets a rule of its domain,
// though it may be one without a limit, or is on a list of the domain. If not, no rule
// says anything of r.
func (s *Set) Exempts(r *weir.Request) bool {
	return slices.ContainsFunc(layersOf(s, r.Domain), func(l *Layer) bool { return l.exempts(r) })
}

// exempts reports whether r meets a rule of the layer, or is on one of its lists.
func (l *Layer) exempts(r *weir.Request) bool {
	if v, _, _ := l.checkLists(r, nil); v != noRule {
		return true
	}
	for i := range r.Descriptors {
		desc := &r.Descriptors[i]
		if desc.Override != nil && len(l.Files) > 0 {
			return true
		}
		// A rule that only leads to others says nothing.
		if rule, v := l.followEntries(desc.Entries); v != noRule && (v != limited || rule.isTerminal()) {
			return true
		}
	}
	return false
}

// isTerminal reports whether who ends at the rule is limited, or let pass by it. A rule
// without a limit that has others beneath only leads there.
func (r *Rule) isTerminal() bool {
	return r.decides() || len(r.kids.keys) == 0
}

// Unmatched says why r, or one of its descriptors, is likely not what was meant: there
// is no such domain, no rule is matched by these keys, or r meets no rule at all. It
// names what is near. Empty means that r is as the rules have it.
func (s *Set) Unmatched(r *weir.Request) string {
	if why := s.Misspelt(r); why != "" || s.Exempts(r) {
		return why
	}
	if len(r.Descriptors) == 0 {
		return "the request has no descriptors"
	}
	return fmt.Sprintf("no rule of domain %q is for these values of %s", r.Domain, quotedKeys(&r.Descriptors[0]))
}

// Misspelt implements [weir.Catalog]: it is Unmatched but for the values.
func (s *Set) Misspelt(r *weir.Request) string {
	if slices.ContainsFunc(s.presets, func(l *Layer) bool { return l.Name == r.Domain }) {
		return "" // nobody can tell what a preset looks at
	}
	if !s.Has(r.Domain) {
		names := s.Domains()
		return fmt.Sprintf("the rules have no domain %q%s", shortened(r.Domain), orThereAre(spell.Nearest(r.Domain, names), names))
	}
	for i := range r.Descriptors {
		desc := &r.Descriptors[i]
		if desc.Override == nil && !looksAt(s, r.Domain, desc) {
			return fmt.Sprintf("no rule of domain %q is matched by %s%s", r.Domain, quotedKeys(desc), suggestNear(s, r.Domain, desc))
		}
	}
	return ""
}

// looksAt reports whether rules of the domain look at a descriptor of these keys,
// whatever its values. It allocates nothing for the keys of a list of the domain.
func looksAt(s *Set, domain string, desc *weir.Descriptor) bool {
	if slices.ContainsFunc(s.KeyLists(domain), func(l weir.KeyList) bool { return hasKeys(desc, l.Keys) }) {
		return true
	}
	keys := entryKeys(desc)
	return slices.ContainsFunc(layersOf(s, domain), func(l *Layer) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return l.Allow[key] != nil })
	}) || s.Meets(domain, keys) ||
		slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.Domain == domain && r.isTerminal() && slices.Equal(r.Keys, keys) })
}

// hasKeys reports whether the entries of a descriptor have these keys, in this order.
func hasKeys(desc *weir.Descriptor, keys []string) bool {
	return slices.EqualFunc(desc.Entries, keys, func(e weir.Entry, key string) bool { return e.Key == key })
}

// entryKeys returns the keys of a descriptor.
func entryKeys(desc *weir.Descriptor) []string {
	keys := make([]string, len(desc.Entries))
	for i := range desc.Entries {
		keys[i] = desc.Entries[i].Key
	}
	return keys
}

// quotedKeys writes the keys of a descriptor, as much as fits a line.
func quotedKeys(desc *weir.Descriptor) string {
	return fmt.Sprintf("%q", shortened(strings.Join(entryKeys(desc), "/")))
}

// shortened returns as much of a text as fits a line.
func shortened(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// suggestNear says what a descriptor that no rule is matched by was meant to be: a list whose
// keys are near, the same in another order, or a longer one that begins so.
func suggestNear(s *Set, domain string, desc *weir.Descriptor) string {
	var known [][]string
	for _, l := range s.KeyLists(domain) {
		known = append(known, l.Keys)
	}
	for _, r := range s.rules {
		if r.Domain == domain && r.TierBy != "" {
			known = append(known, append(slices.Clip(r.Keys), r.TierBy))
		}
	}
	var words []string
	for _, key := range slices.Concat(known...) {
		if !slices.Contains(words, key) {
			words = append(words, key)
		}
	}
	want := entryKeys(desc)
	for i, key := range want {
		if near := spell.Nearest(key, words); near != "" && !slices.Contains(words, key) {
			want[i] = near
		}
	}
	sorted := slices.Sorted(slices.Values(want))
	best, rank := "", 0
	for _, keys := range known {
		at := 0
		switch {
		case slices.Equal(keys, want):
			at = 3
		case slices.Equal(slices.Sorted(slices.Values(keys)), sorted):
			at = 2
		case len(keys) > len(want) && slices.Equal(keys[:len(want)], want):
			at = 1
		}
		if at > rank {
			best, rank = strings.Join(keys, "/"), at
		}
	}
	var there []string
	for _, keys := range known {
		if text := strings.Join(keys, "/"); !slices.Contains(there, text) {
			there = append(there, text)
		}
	}
	return orThereAre(best, there)
}

// orThereAre says what was meant, or else what there is.
func orThereAre(meant string, there []string) string {
	const most = 8
	switch {
	case meant != "":
		return fmt.Sprintf(" (did you mean %q?)", meant)
	case len(there) == 0:
		return " (there are none)"
	case len(there) > most:
		return fmt.Sprintf(" (there are %s and %d more)", strings.Join(there[:most], ", "), len(there)-most)
	}
	return fmt.Sprintf(" (there are %s)", strings.Join(there, ", "))
}

// MissingTier says which tiers to name where r meets a rule that has limits for tiers alone
// and r names none of them; else it is empty.
func (s *Set) MissingTier(r *weir.Request) string {
	for _, l := range layersOf(s, r.Domain) {
		for i := range r.Descriptors {
			rule, v := l.followEntries(r.Descriptors[i].Entries)
			if v != limited || len(rule.Limits) > 0 || len(rule.Tiers) == 0 {
				continue
			}
			var tiers []string
			for _, t := range rule.Tiers[:min(len(rule.Tiers), 8)] {
				tiers = append(tiers, rule.TierBy+"="+t.Value)
			}
			return fmt.Sprintf("%s has limits by tier only: add %s", rule.Path, strings.Join(tiers, " or "))
		}
	}
	return ""
}
