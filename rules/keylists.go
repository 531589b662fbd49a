package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirlimit/weir"
)

var (
	_ weir.KeyLister = (*Set)(nil)
	_ weir.KeyLister = (*Live)(nil)
)

// KeyLists implements [weir.KeyLister]: a list for all rules that are matched by the
// same keys, in the order of the files, and one of a single key for each that only a
// choice of tiers or a list of the domain looks at. A descriptor of those meets no
// rule by itself.
func (s *Set) KeyLists(domain string) []weir.KeyList {
	if d := s.domains[domain]; d != nil {
		return d.keyLists
	}
	return nil
}

// KeyLists implements [weir.KeyLister] by the set in use.
func (l *Live) KeyLists(domain string) []weir.KeyList { return l.set.Load().KeyLists(domain) }

// listKeys makes the KeyLists of every domain, when all rules are there.
func listKeys(s *Set) {
	lists := keyLister{}
	for _, r := range s.rules {
		if r.decides() {
			lists.add(s.domains[r.Domain], r.Keys)
		}
	}
	for _, r := range s.rules {
		d := s.domains[r.Domain]
		if r.TierBy == "" {
			continue
		}
		lists.add(d, []string{r.TierBy})
		if at, ok := lists[listID(d, append(slices.Clip(r.Keys), r.TierBy))]; ok {
			d.keyLists[at].Repeats = d.namesTier
		}
	}
	for _, d := range s.domains {
		for _, key := range slices.Concat(slices.Sorted(maps.Keys(d.deny)), slices.Sorted(maps.Keys(d.allow))) {
			lists.add(d, []string{key})
		}
	}
}

// keyLister finds the place of a list among those of its domain, by listID.
type keyLister map[string]int

// add adds a list to those of d unless it is there.
func (l keyLister) add(d *domain, keys []string) {
	id := listID(d, keys)
	if _, ok := l[id]; !ok {
		l[id] = len(d.keyLists)
		d.keyLists = append(d.keyLists, weir.KeyList{Keys: keys})
	}
}

// listID is a text that no other domain and list of keys has.
func listID(d *domain, keys []string) string { return fmt.Sprintf("%q %q", d.name, keys) }

// decides reports whether the rule itself can refuse something, or keep others from
// doing so; else it only leads to those beneath.
func (r *Rule) decides() bool {
	return len(r.Limits) > 0 || len(r.Tiers) > 0 || len(r.Overrides) > 0 || r.deny != nil
}

// namesTier reports whether the last entry names the tier of the rule that the
// entries before it meet.
func (d *domain) namesTier(entries []weir.Entry) bool {
	last := len(entries) - 1
	rule := d.rule(entries[:last])
	return rule != nil && rule.TierBy == entries[last].Key
}

// rule returns the rule that a descriptor of entries leads to, nil for none. It looks
// at no list.
func (d *domain) rule(entries []weir.Entry) *Rule {
	var rule *Rule
	lv := &d.root
	for i := range entries {
		if rule, _ = lv.find(&entries[i]); rule == nil {
			return nil
		}
		lv = &rule.kids
	}
	return rule
}
