package limits

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/pattern"
)

// branch holds the rules of one level for one key, by their values.
type branch struct {
	// A wildcard is in exact too, where only its own text finds it.
	exact map[string]*Rule
	wild  *pattern.Table[*Rule]
	bare  *Rule
	// single is bare where nothing else can match and it has nothing to choose.
	single *Rule
}

// addRule adds a rule. It returns the rule that is already there for its value.
func (b *branch) addRule(r *Rule) *Rule {
	if r.Value == "" {
		old := b.bare
		if old == nil {
			b.bare = r
		}
		return old
	}
	if old := b.exact[r.Value]; old != nil {
		return old
	}
	if b.exact == nil {
		b.exact = map[string]*Rule{}
	}
	b.exact[r.Value] = r
	if pattern.Is(r.Value) {
		if b.wild == nil {
			b.wild = &pattern.Table[*Rule]{}
		}
		b.wild.AddPattern(r.Value, r)
	}
	return nil
}

// hasRule reports whether the rule is one of the branch.
func (b *branch) hasRule(r *Rule) bool { return b.bare == r || r.Value != "" && b.exact[r.Value] == r }

// level holds the rules that can match one entry.
type level struct {
	// keys is by the key of the entry. Most levels have one key:
	// the first is kept beside the map, as comparing takes less than hashing.
	keys        map[string]*branch
	first       string
	firstBranch *branch
}

// markSingles notes which branches have one rule and nothing to choose, on the levels from
// lv on that such rules lead to. It is done when all rules are there.
func (lv *level) markSingles() {
	for _, b := range lv.keys {
		if b.bare != nil && b.exact == nil && b.bare.hasNoChoice() {
			b.single = b.bare
			b.single.kids.markSingles()
		}
	}
}

// hasNoChoice reports whether the rule has the same limits for all values, and no lists.
func (r *Rule) hasNoChoice() bool {
	return r.Deny == nil && r.Allow == nil && r.TierBy == "" && r.tiers == nil && r.overrides == nil
}

// addRule adds a rule to the level. It returns the rule that is already there.
func (lv *level) addRule(r *Rule) *Rule {
	b := lv.keys[r.Key]
	if b == nil {
		b = &branch{}
		if lv.keys == nil {
			lv.keys, lv.first, lv.firstBranch = map[string]*branch{}, r.Key, b
		}
		lv.keys[r.Key] = b
	}
	return b.addRule(r)
}

// how a rule was found for an entry.
type how uint8

// matchEntry returns the rule for an entry: one for its exact value, else the first
// wildcard in the order of the file, else one for its key alone.
func (lv *level) matchEntry(e *weir.Entry) (*Rule, how) {
	b := lv.branchFor(e.Key)
	if b == nil {
		return nil, unmatched
	}
	if b.exact != nil {
		if r := b.exact[e.Value]; r != nil {
			return r, byValue
		}
	}
	if b.wild != nil {
		if r, ok := b.wild.FindFirst(e.Value); ok {
			return r, byWildcard
		}
	}
	if b.bare != nil {
		return b.bare, byKey
	}
	return nil, unmatched
}

// branchFor returns the rules for a key, nil for none.
func (lv *level) branchFor(key string) *branch {
	if key == lv.first && lv.firstBranch != nil {
		return lv.firstBranch
	}
	return lv.keys[key]
}
