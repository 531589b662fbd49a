package limits

import (
	"slices"

	"github.com/weirlimit/weir"
)

const (
	unmatched how = iota
	byValue
	byWildcard
	byKey
)

// verdict is what was found for one descriptor.
type verdict uint8

const (
	noRule verdict = iota
	limited
	allowed
	denied
	overridden
)

// Match implements weir.Rules. It allocates nothing unless dst or the request's
// buffer is full, or a request has more than eight descriptors or entries.
func (s *Set) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	d, from := s.first, len(dst)
	if d == nil || d.name != r.Domain {
		d = s.domains[r.Domain]
	}
	if d != nil {
		dst = d.matchRequest(dst, r, nil)
	}
	for _, l := range s.presets {
		if l.Name == "" || l.Name == r.Domain {
			dst = l.Preset.matchRequest(dst, r)
		}
	}
	if s.leaves != nil {
		rest := slices.DeleteFunc(dst[from:], func(o weir.Op) bool { return o.Limit != nil && s.leaves(o.Limit) })
		dst = dst[:from+len(rest)]
	}
	return dst
}

func (d *domain) matchRequest(dst []weir.Op, r *weir.Request, t *trace) []weir.Op {
	for _, l := range d.layers {
		if l.Deny != nil || l.Allow != nil {
			if v, limit, at := l.checkLists(r, t); v == denied {
				dst = append(dst, newDenyOp(limit, r, at))
				continue
			} else if v == allowed {
				continue
			}
		}
		if l.replaces {
			dst = l.matchReplacing(dst, r, t)
			continue
		}
		for i := range r.Descriptors {
			var f found
			if l.matchDescriptor(&f, r, i, t); f.verdict != noRule {
				from := len(dst)
				dst = f.appendOps(dst, r, i)
				if t != nil {
					t.matched(i, &f, dst[from:])
				}
			}
		}
	}
	return dst
}

// matchReplacing matches rules where limits take the place of others. Which are replaced is known
// when all are found.
func (l *Layer) matchReplacing(dst []weir.Op, r *weir.Request, t *trace) []weir.Op {
	var buf [8]found
	all := buf[:0]
	for i := range r.Descriptors {
		all = append(all, found{})
		l.matchDescriptor(&all[i], r, i, t)
	}
	for i, f := range all {
		if f.verdict == noRule {
			continue
		}
		from, limits := len(dst), f.limits
		for j, one := range limits {
			if replaced(one, all, r) {
				t.replaced(i, one.Name)
				continue
			}
			f.limits = limits[j : j+1]
			dst = f.appendOps(dst, r, i)
		}
		if f.limits = limits; f.verdict != limited {
			dst = f.appendOps(dst, r, i)
		}
		if t != nil {
			t.matched(i, &f, dst[from:])
		}
	}
	return dst
}

// checkLists looks the request's entries up in the lists of the layer.
// A denial has the place of its descriptor.
func (l *Layer) checkLists(r *weir.Request, t *trace) (verdict, *weir.Limit, int) {
	v := noRule
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			if list := l.Deny[e.Key]; list != nil && list.Has(e.Value) {
				t.recordListed(e, denied)
				return denied, list.Limit, i
			}
			if r.Descriptors[i].Reading == 0 && l.Allow[e.Key].Has(e.Value) {
				v = allowed
				t.recordListed(e, allowed)
			}
		}
	}
	return v, nil, 0
}

// matchDescriptor finds the rule for descriptor at of the request. There is no way back:
// once a rule matched an entry, only rules beneath it can match the next one.
func (l *Layer) matchDescriptor(f *found, r *weir.Request, at int, t *trace) {
	desc := &r.Descriptors[at]
	if desc.Override != nil && len(l.Files) > 0 {
		// It wins over every limit of files, not over a denial.
		if _, v := l.followEntries(desc.Entries); v != denied {
			f.verdict, f.key = overridden, l.overrideKey(r, desc)
			return
		}
	}
	// Most rules of most files have nothing to choose: then all values are the key.
	var rule *Rule
	lv := &l.root
	for i := range desc.Entries {
		e := &desc.Entries[i]
		b := lv.branchFor(e.Key)
		if b == nil || b.single == nil {
			l.walkFrom(f, r, at, i, lv, t)
			return
		}
		if rule = b.single; t != nil {
			t.recordTried(at, e, lv, rule, byKey)
		}
		lv = &rule.kids
	}
	if rule != nil { // there are entries
		f.verdict, f.rule, f.limits, f.key = limited, rule, rule.Limits, r.KeyOf(desc)
	}
}

// walkFrom is walk from the n-th entry on, whose rule is beneath lv. The values of those
// before it are parts of the key.
func (l *Layer) walkFrom(f *found, r *weir.Request, at, n int, lv *level, t *trace) {
	desc := &r.Descriptors[at]
	var buf [8]string
	values := buf[:0]
	for i := range desc.Entries[:n] {
		values = append(values, desc.Entries[i].Value)
	}
	for i := n; i < len(desc.Entries); i++ {
		e := &desc.Entries[i]
		rule, how := lv.matchEntry(e)
		if t != nil {
			t.recordTried(at, e, lv, rule, how)
		}
		switch {
		case rule == nil:
			return
		case rule.Deny != nil && rule.Deny.Has(e.Value):
			f.verdict, f.rule = denied, rule
			return
		case rule.Allow != nil && rule.Allow.Has(e.Value):
			f.verdict, f.rule = allowed, rule
			return
		}
		if v, free := keyPartOf(rule, e, how); free {
			values = append(values, v)
		}
		if rule.endsDescriptor(desc.Entries[i+1:]) {
			f.verdict, f.rule, f.limits = limited, rule, rule.chooseLimits(e.Value, r, desc)
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

// endsDescriptor reports whether a descriptor ends at the rule: nothing follows, or the tier.
func (rule *Rule) endsDescriptor(rest []weir.Entry) bool {
	return len(rest) == 0 || len(rest) == 1 && rule.TierBy != "" && rest[0].Key == rule.TierBy
}

// followEntries returns the rule at which entries end, or whose list decides them before that,
// and which of the two it is.
func (l *Layer) followEntries(entries []weir.Entry) (*Rule, verdict) {
	lv := &l.root
	for i := range entries {
		e := &entries[i]
		rule, _ := lv.matchEntry(e)
		switch {
		case rule == nil:
			return nil, noRule
		case rule.Deny.Has(e.Value):
			return rule, denied
		case rule.Allow.Has(e.Value):
			return rule, allowed
		case rule.endsDescriptor(entries[i+1:]):
			return rule, limited
		}
		lv = &rule.kids
	}
	return nil, noRule
}

// keyPartOf returns the part of the counter's key that an entry adds: what its rule
// does not fix.
func keyPartOf(rule *Rule, e *weir.Entry, how how) (string, bool) {
	switch how {
	case byValue:
		return e.Value, rule.CountsValue
	case byWildcard:
		if rule.ShareThreshold {
			return "", false
		}
	}
	return e.Value, true
}

// overrideKey is the key for a limit that the request brings along: all that
// the descriptor says.
func (l *Layer) overrideKey(r *weir.Request, desc *weir.Descriptor) string {
	var buf [16]string
	parts := append(buf[:0], l.Name)
	for i := range desc.Entries {
		parts = append(parts, desc.Entries[i].Key, desc.Entries[i].Value)
	}
	return r.Key(parts...)
}

// chooseLimits returns the limits for a value: those of an override, else those of
// the request's tier, else those of the rule.
func (rule *Rule) chooseLimits(value string, r *weir.Request, desc *weir.Descriptor) []*Limit {
	if rule.overrides != nil {
		if ls, ok := rule.overrides.FindText(value); ok {
			return ls
		}
	}
	if rule.tiers != nil {
		if tier, ok := entryValue(rule.TierBy, r, desc); ok {
			if ls, ok := rule.tiers.FindText(tier); ok {
				return ls
			}
			return rule.Limits
		}
		return rule.chooseAll(r)
	}
	return rule.Limits
}

// chooseAll returns the limits of the rule, and those of the tiers that the request has as
// some read it.
func (rule *Rule) chooseAll(r *weir.Request) []*Limit {
	all := slices.Clip(rule.Limits)
	for i := range r.Descriptors {
		if r.Descriptors[i].Reading == 0 {
			continue
		}
		for _, e := range r.Descriptors[i].Entries {
			if e.Key != rule.TierBy {
				continue
			}
			if ls, ok := rule.tiers.FindText(e.Value); ok {
				all = append(all, slices.DeleteFunc(slices.Clone(ls), func(l *Limit) bool { return slices.Contains(all, l) })...)
			}
		}
	}
	return all
}

// entryValue returns the value of key in desc, else in another descriptor of the
// request, so far as it is read alike.
func entryValue(key string, r *weir.Request, desc *weir.Descriptor) (string, bool) {
	for i := range desc.Entries {
		if desc.Entries[i].Key == key {
			return desc.Entries[i].Value, true
		}
	}
	for i := range r.Descriptors {
		if reading := r.Descriptors[i].Reading; reading != 0 && reading != desc.Reading {
			continue
		}
		for j := range r.Descriptors[i].Entries {
			if e := &r.Descriptors[i].Entries[j]; e.Key == key {
				return e.Value, true
			}
		}
	}
	return "", false
}
