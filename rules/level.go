package rules

import "github.com/weirlimit/weir"

// branch holds the rules of one level for one key.
type branch struct {
	exact map[string]*Rule
	wild  *wildcards[*Rule]
	bare  *Rule
	// single is bare where nothing else can match and it has nothing to choose.
	single *Rule
}

// level holds the rules that can match one entry.
type level struct {
	// keys is by the key of the entry (native dialect). Most levels have one key:
	// the first is kept beside the map, as comparing takes less than hashing.
	keys        map[string]*branch
	first       string
	firstBranch *branch
	// words is by key_value, and by key alone (Envoy dialect).
	words map[string]*Rule
	// wild matches key_value (Envoy dialect).
	wild *wildcards[*Rule]
}

// markSingles notes which branches have one rule and nothing to choose, on the levels from
// lv on that such rules lead to. It is done when all rules are there.
func (lv *level) markSingles() {
	for _, b := range lv.keys {
		// A wildcard is among the exact values too.
		if b.bare != nil && b.exact == nil && b.bare.hasNoChoice() {
			b.single = b.bare
			b.single.kids.markSingles()
		}
	}
}

// hasNoChoice reports whether the rule has the same limits for all values, and no lists.
func (r *Rule) hasNoChoice() bool {
	return r.deny == nil && r.allow == nil && r.TierBy == "" && r.tiers == nil && r.overrides == nil
}

// how a rule was found for an entry.
type how uint8

// find returns the rule for an entry: one for its exact value, else the first
// wildcard in the order of the file, else one for its key alone.
func (lv *level) find(e *weir.Entry) (*Rule, how) {
	if lv.words != nil {
		return lv.findWord(e)
	}
	b := lv.branch(e.Key)
	if b == nil {
		return nil, unmatched
	}
	if b.exact != nil {
		if r := b.exact[e.Value]; r != nil {
			return r, byValue
		}
	}
	if b.wild != nil {
		if r, ok := b.wild.find(e.Value); ok {
			return r, byWildcard
		}
	}
	if b.bare != nil {
		return b.bare, byKey
	}
	return nil, unmatched
}

// branch returns the rules for a key, nil for none.
func (lv *level) branch(key string) *branch {
	if key == lv.first && lv.firstBranch != nil {
		return lv.firstBranch
	}
	return lv.keys[key]
}

// findWord is find in the Envoy dialect.
func (lv *level) findWord(e *weir.Entry) (*Rule, how) {
	// Long values make the compiler's buffer on the stack too small and cost
	// an allocation.
	var buf [256]byte
	w := append(buf[:0], e.Key...)
	w = append(w, '_')
	w = append(w, e.Value...)
	if r := lv.words[string(w)]; r != nil {
		return r, byValue
	}
	if lv.wild != nil {
		if r, ok := lv.wild.find(view(w)); ok {
			return r, byWildcard
		}
	}
	if r := lv.words[e.Key]; r != nil {
		return r, byKey
	}
	return nil, unmatched
}
