package rules

import "github.com/weirlimit/weir"

// markFast notes, on the levels that matchFast can reach from lv, which branches have
// one rule and nothing to choose. It is done when all rules are there.
func (lv *level) markFast() {
	for _, b := range lv.keys {
		// A wildcard is among the exact values too.
		if b.bare != nil && b.exact == nil && b.bare.hasNoChoice() {
			b.single = b.bare
			b.single.kids.markFast()
		}
	}
}

// hasNoChoice reports whether the rule has the same limits for all values, and no lists.
func (r *Rule) hasNoChoice() bool {
	return r.deny == nil && r.allow == nil && r.TierBy == "" && r.tiers == nil && r.overrides == nil
}

// matchFast does what walk and ops do for descriptor at, in fewer steps, where every
// entry meets a branch with one rule and nothing to choose, or none. It reports false,
// and has appended nothing, where one has something to choose. See
// docs/decisions/0014-fast-paths.md.
func (d *domain) matchFast(dst []weir.Op, r *weir.Request, at int) ([]weir.Op, bool) {
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
		case b.single == nil:
			return dst, false
		}
		rule = b.single
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
