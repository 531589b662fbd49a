package rules

import (
	"github.com/weirlimit/weir"
)

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

// branch holds the rules of one level for one key.
type branch struct {
	exact map[string]*Rule
	wild  *wildcards[*Rule]
	bare  *Rule
	// single is bare where it is all that matchFast needs to know.
	single *Rule
}

// how a rule was found for an entry.
type how uint8

const (
	unmatched how = iota
	byValue
	byWildcard
	byKey
)

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

// verdict is what was found for one descriptor.
type verdict uint8

const (
	noRule verdict = iota
	limited
	allowed
	denied
	overridden
)

// found is what was found for one descriptor of a request.
type found struct {
	verdict verdict
	at      int
	rule    *Rule
	limits  []*Limit
	key     string
	// override is the limit that the request brings along.
	override *weir.Limit
	denial   *weir.Limit
}

// Match implements weir.Rules. It allocates nothing unless dst or the request's
// buffer is full, or a request has more than eight descriptors or entries.
func (s *Set) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	return s.match(dst, r, nil)
}

func (s *Set) match(dst []weir.Op, r *weir.Request, t *trace) []weir.Op {
	d := s.first
	if d == nil || d.name != r.Domain {
		if d = s.domains[r.Domain]; d == nil {
			return dst
		}
	}
	if d.deny != nil || d.allow != nil {
		if v, limit, at := d.checkLists(r, t); v == denied {
			return append(dst, deny(limit, r, at))
		} else if v == allowed {
			return dst
		}
	}
	if !d.replaces {
		for i := range r.Descriptors {
			if t == nil {
				var ok bool
				if dst, ok = d.matchFast(dst, r, i); ok {
					continue
				}
			}
			var f found
			if d.walk(&f, r, i, t); f.verdict != noRule {
				dst = d.ops(dst, nil, &f, r, t)
			}
		}
		return dst
	}
	// Which limits are replaced is known when all are found.
	var buf [8]found
	all := buf[:0]
	for i := range r.Descriptors {
		var f found
		if d.walk(&f, r, i, t); f.verdict != noRule {
			all = append(all, f)
		}
	}
	for i := range all {
		dst = d.ops(dst, all, &all[i], r, t)
	}
	return dst
}

// checkLists looks the request's entries up in the lists of the domain.
// A denial has the place of its descriptor.
func (d *domain) checkLists(r *weir.Request, t *trace) (verdict, *weir.Limit, int) {
	v := noRule
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			if l := d.deny[e.Key]; l != nil && l.values.has(e.Value) {
				t.listed(e, denied)
				return denied, l.limit, i
			}
			if d.allow[e.Key].has(e.Value) {
				v = allowed
				t.listed(e, allowed)
			}
		}
	}
	return v, nil, 0
}

// walk finds the rule for descriptor at of the request. There is no way back:
// once a rule matched an entry, only rules beneath it can match the next one.
func (d *domain) walk(f *found, r *weir.Request, at int, t *trace) {
	desc := &r.Descriptors[at]
	f.at = at
	if desc.Override != nil && !d.denies(desc) {
		f.verdict, f.override = overridden, desc.Override
		f.key = d.overrideKey(r, desc)
		return
	}
	var buf [8]string
	values := buf[:0]
	lv := &d.root
	for i := range desc.Entries {
		e := &desc.Entries[i]
		rule, how := lv.find(e)
		if t != nil {
			t.tried(at, e, lv, rule, how)
		}
		if rule == nil {
			return
		}
		if v, free := free(rule, e, how); free {
			values = append(values, v)
		}
		if rule.deny != nil && rule.deny.has(e.Value) {
			f.verdict, f.rule, f.denial = denied, rule, rule.denial
			return
		}
		if rule.allow != nil && rule.allow.has(e.Value) {
			f.verdict, f.rule = allowed, rule
			return
		}
		if rule.isLast(desc.Entries[i+1:]) {
			f.verdict, f.rule = limited, rule
			f.limits = rule.choose(e.Value, r, desc)
			if len(values) == 1 {
				f.key = values[0]
			} else {
				f.key = r.Key(values...)
			}
			return
		}
		lv = &rule.kids
	}
}

// isLast reports whether a descriptor ends at the rule: nothing follows, or the tier.
func (rule *Rule) isLast(rest []weir.Entry) bool {
	return len(rest) == 0 || len(rest) == 1 && rule.TierBy != "" && rest[0].Key == rule.TierBy
}

// denies reports whether a rule on the way of the descriptor denies it: a limit
// that the request brings along wins over every limit, not over a denial.
func (d *domain) denies(desc *weir.Descriptor) bool {
	lv := &d.root
	for i := range desc.Entries {
		e := &desc.Entries[i]
		rule, _ := lv.find(e)
		switch {
		case rule == nil:
			return false
		case rule.deny.has(e.Value):
			return true
		case rule.allow.has(e.Value):
			return false
		}
		lv = &rule.kids
	}
	return false
}

// free returns the part of the counter's key that an entry adds: what its rule
// does not fix.
func free(rule *Rule, e *weir.Entry, how how) (string, bool) {
	switch how {
	case byValue:
		return "", false
	case byWildcard:
		if rule.ShareThreshold {
			return "", false
		}
		if e.Key != rule.Key {
			// The Envoy dialect can split key_value elsewhere than the rule
			// does, and counts both under the same word.
			return e.Key + "_" + e.Value, true
		}
	}
	return e.Value, true
}

// overrideKey is the key for a limit that the request brings along: all that
// the descriptor says.
func (d *domain) overrideKey(r *weir.Request, desc *weir.Descriptor) string {
	var buf [16]string
	parts := append(buf[:0], d.name)
	for i := range desc.Entries {
		parts = append(parts, desc.Entries[i].Key, desc.Entries[i].Value)
	}
	return r.Key(parts...)
}

// choose returns the limits for a value: those of an override, else those of
// the request's tier, else those of the rule.
func (rule *Rule) choose(value string, r *weir.Request, desc *weir.Descriptor) []*Limit {
	if rule.overrides != nil {
		if ls, ok := rule.overrides.find(value); ok {
			return ls
		}
	}
	if rule.tiers != nil {
		if tier, ok := entry(rule.TierBy, r, desc); ok {
			if ls, ok := rule.tiers.find(tier); ok {
				return ls
			}
		}
	}
	return rule.Limits
}

// entry returns the value of key in desc, else in another descriptor of the
// request.
func entry(key string, r *weir.Request, desc *weir.Descriptor) (string, bool) {
	for i := range desc.Entries {
		if desc.Entries[i].Key == key {
			return desc.Entries[i].Value, true
		}
	}
	for i := range r.Descriptors {
		for j := range r.Descriptors[i].Entries {
			if e := &r.Descriptors[i].Entries[j]; e.Key == key {
				return e.Value, true
			}
		}
	}
	return "", false
}

// ops appends the ops of one of the descriptors found.
func (d *domain) ops(dst []weir.Op, all []found, f *found, r *weir.Request, t *trace) []weir.Op {
	from := len(dst)
	desc := &r.Descriptors[f.at]
	switch f.verdict {
	case denied:
		dst = append(dst, deny(f.denial, r, f.at))
	case overridden:
		dst = f.override.Append(dst, f.key, costOf(r, desc), r)
	case limited:
		for _, l := range f.limits {
			if d.replaces && replaced(l, all) {
				t.replaced(f.at, l.Name)
				continue
			}
			dst = l.ops(dst, f.key, costOf(r, desc), r)
		}
	}
	mark(dst[from:], desc, f.at, r)
	t.matched(f, dst[from:])
	return dst
}

// mark makes ops those of descriptor at of the request.
func mark(ops []weir.Op, desc *weir.Descriptor, at int, r *weir.Request) {
	if at == 0 && !desc.Peek && r.Verb != weir.Peek {
		return
	}
	for i := range ops {
		o := &ops[i]
		o.Descriptor = uint16(at)
		if desc.Peek || r.Verb == weir.Peek {
			o.Verb = weir.Peek
		}
	}
}

// ops appends the ops by which a request meets the limit.
func (l *Limit) ops(dst []weir.Op, key string, cost int64, r *weir.Request) []weir.Op {
	switch {
	case l.Unlimited:
		return dst
	case l.Denies && l.Shadow:
		// Two units never fit a limit of one: what is refused is counted.
		return append(dst, weir.Op{Key: key, Limit: l.Limit, Cost: 2, Role: weir.Shadow, Verb: r.Verb})
	case l.Denies:
		o := deny(l.Limit, r, 0)
		o.Key = key // who is refused, should the limit get another mode
		return append(dst, o)
	}
	if l.Cost > 0 {
		cost = l.Cost
	}
	if l.Priority > r.Priority {
		// Limit.Append reads it there.
		was := r.Priority
		r.Priority = l.Priority
		dst = l.Append(dst, key, cost, r)
		r.Priority = was
		return dst
	}
	return l.Append(dst, key, cost, r)
}

func deny(l *weir.Limit, r *weir.Request, at int) weir.Op {
	return weir.Op{Limit: l, Role: weir.Deny, Verb: r.Verb, Descriptor: uint16(at), Decision: weir.Decision{Limit: l, RetryAfter: weir.Never}}
}

// replaced reports whether another limit that the request meets takes the
// place of l. A limit that is unlimited, or is replaced itself, replaces too;
// none replaces itself, see build.
func replaced(l *Limit, all []found) bool {
	if l.Limit == nil || l.alias == "" {
		return false
	}
	for i := range all {
		for _, other := range all[i].limits {
			for _, name := range other.Replaces {
				if name == l.alias {
					return true
				}
			}
		}
	}
	return false
}

// costOf returns what the request says that descriptor costs.
func costOf(r *weir.Request, d *weir.Descriptor) int64 {
	switch {
	case d.Cost != 0:
		return d.Cost
	case r.Cost != 0:
		return r.Cost
	}
	return 1
}
