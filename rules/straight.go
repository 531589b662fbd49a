package rules

import "github.com/weirlimit/weir"

// straighten notes, on the levels that straight can reach from lv, which branches have
// one rule and nothing to choose. It is done when all rules are there.
func (lv *level) straighten() {
	for _, b := range lv.keys {
		// A wildcard is among the exact values too.
		if b.bare != nil && b.exact == nil && b.bare.plain() {
			b.only = b.bare
			b.only.kids.straighten()
		}
	}
}

// plain reports whether the rule has the same limits for all values, and no lists.
func (r *Rule) plain() bool {
	return r.deny == nil && r.allow == nil && r.TierBy == "" && r.tiers == nil && r.overrides == nil
}

// straight does what walk and ops do for descriptor at, in half of the time, where
// every entry meets a branch with one rule and nothing to choose, or none. It reports
// false, and has appended nothing, where one has something to choose.
func (d *domain) straight(dst []weir.Op, r *weir.Request, at int) ([]weir.Op, bool) {
	desc := &r.Descriptors[at]
	if desc.Override != nil || d.root.words != nil {
		return dst, false
	}
	var rule *Rule
	lv := &d.root
	for i := range desc.Entries {
		b := lv.branch(desc.Entries[i].Key)
		switch {
		case b == nil:
			return dst, true // no rule
		case b.only == nil:
			return dst, false
		}
		rule = b.only
		lv = &rule.kids
	}
	if rule == nil {
		return dst, true // no entries
	}
	from, key, cost := len(dst), r.KeyOf(desc), costOf(r, desc)
	for _, l := range rule.Limits {
		dst = l.ops(dst, key, cost, r)
	}
	mark(dst[from:], desc, at, r)
	return dst, true
}
