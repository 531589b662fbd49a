package limits

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirlimit/weir"
)

// KeyLists implements [weir.Catalog]: a list for all rules that are matched by the
// same keys, those of the last layer first, and one of a single key for each that only a
// choice of tiers or a list of the domain looks at. A descriptor of those meets no
// rule by itself.
func (s *Set) KeyLists(domain string) []weir.KeyList {
	if d := s.domains[domain]; d != nil {
		return d.keyLists
	}
	return nil
}

// listKeys makes the KeyLists of the domain, when all its layers are there.
func (d *domain) listKeys() {
	indices := map[string]int{} // of a list among the others, by its text
	add := func(keys ...string) {
		id := fmt.Sprintf("%q", keys)
		if _, ok := indices[id]; !ok { // a second descriptor of the same keys would be charged as well
			indices[id] = len(d.keyLists)
			d.keyLists = append(d.keyLists, weir.KeyList{Keys: keys})
		}
	}
	// Files are the last layer, and say first what requests are asked about.
	for _, l := range slices.Backward(d.layers) {
		if l.Unlisted {
			continue
		}
		for _, r := range l.all {
			if r.decides() {
				add(r.Keys...)
			}
		}
		for _, r := range l.all {
			if r.TierBy == "" {
				continue
			}
			add(r.TierBy)
			if at, ok := indices[fmt.Sprintf("%q", append(slices.Clip(r.Keys), r.TierBy))]; ok {
				d.keyLists[at].Repeats = d.namesTier
			}
		}
		for _, key := range slices.Concat(slices.Sorted(maps.Keys(l.Deny)), slices.Sorted(maps.Keys(l.Allow))) {
			add(key)
		}
	}
}

// decides reports whether the rule itself can refuse something, or keep others from
// doing so; else it only leads to those beneath.
func (r *Rule) decides() bool {
	return len(r.Limits) > 0 || len(r.Tiers) > 0 || len(r.Overrides) > 0 || r.Deny != nil
}

// namesTier reports whether the last entry names the tier of a rule that the
// entries before it meet.
func (d *domain) namesTier(entries []weir.Entry) bool {
	last := len(entries) - 1
	return slices.ContainsFunc(d.layers, func(l *Layer) bool {
		rule := l.findRule(entries[:last])
		return rule != nil && rule.TierBy == entries[last].Key
	})
}

// findRule returns the rule that a descriptor of entries leads to, nil for none. It looks
// at no list.
func (l *Layer) findRule(entries []weir.Entry) *Rule {
	var rule *Rule
	lv := &l.root
	for i := range entries {
		if rule, _ = lv.matchEntry(&entries[i]); rule == nil {
			return nil
		}
		lv = &rule.kids
	}
	return rule
}
