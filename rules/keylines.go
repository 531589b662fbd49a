package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// KeyAction is what operators do to one key of one limit.
type KeyAction uint8

const (
	// BanKey refuses the key.
	BanKey KeyAction = iota
	// AllowKey lets the key pass and counts it.
	AllowKey
	// OverrideKey gives the key other numbers.
	OverrideKey
	// BanDomain refuses all requests of the domain that carry the one entry.
	BanDomain
)

// KeyChange is a change of one key of one limit.
type KeyChange struct {
	Domain string
	// Entries lead to the rule of the limit, Scope names the limit.
	Entries []weir.Entry
	Scope   string
	Action  KeyAction
	// Count per Period, and Burst, as in a limit: of an override. Zero Burst means
	// Count.
	Count  int64
	Period time.Duration
	Burst  int64
}

// KeyLines returns the lines that make the change in the rules files, after a
// comment that says in which file, at which rule and where there they belong. Where
// no lines can, the comment says why, and it is all there is.
func (s *Set) KeyLines(c KeyChange) string {
	if c.Action == BanDomain {
		return denyLinesOf(s, c)
	}
	w := &keyWriter{KeyChange: c, set: s}
	if why := w.find(); why != "" {
		return noKeyLines(why)
	}
	lines := w.lines()
	if len(lines) > maxKeyLines {
		return noKeyLines(fmt.Sprintf("they would have %d bytes", len(lines)))
	}
	return lines
}

// denyLinesOf returns the lines that refuse all requests with an entry.
func denyLinesOf(s *Set, c KeyChange) string {
	d := s.domains[c.Domain]
	if d == nil {
		return noKeyLines("the rules have no domain " + quote(c.Domain))
	}
	e := c.Entries[0]
	why := unwritable(e.Key, e.Value, false)
	if _, err := netip.ParsePrefix(e.Value); why == "" && err == nil {
		why = quote(e.Value) + " is all addresses in it there"
	}
	if why == "" && !unquoted.MatchString(e.Key) {
		why = unwritable(e.Key, e.Key, false)
	}
	if why != "" {
		return noKeyLines(why)
	}
	key, value := scalarText(quotedOf(e.Key)), scalarText(quotedOf(e.Value))
	switch {
	case d.deny[e.Key] != nil && sharesList(s, d, e.Key):
		return noKeyLines("the list " + key + " of its deny is written once for several lists, by an alias, and all would change")
	case d.deny[e.Key] != nil:
		return fmt.Sprintf("# %s, into the list %s of its deny\n%s\n", d.file, key, value)
	case d.deny != nil:
		return fmt.Sprintf("# %s, into its deny\n%s: [%s]\n", d.file, key, value)
	}
	return fmt.Sprintf("# %s, beside its domain\ndeny: {%s: [%s]}\n", d.file, key, value)
}

// sharesList reports whether the deny list of a key is also that of another key, or of a
// rule.
func sharesList(s *Set, d *domain, key string) bool {
	at := d.deny[key].first
	if at == nil {
		return false
	}
	for other, l := range d.deny {
		if other != key && l.first == at {
			return true
		}
	}
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		return slices.ContainsFunc(keep(r.node, "deny", "allow"), func(p pair) bool {
			return p.value == at || len(p.value.items) > 0 && p.value.items[0] == at
		})
	})
}

// maxKeyLines bounds lines in bytes, so that none is cut where they are kept.
const maxKeyLines = 3 << 10

// find fills in the rule of the change, and returns why there are no lines.
func (w *keyWriter) find() string {
	if w.domain = w.set.domains[w.Domain]; w.domain == nil {
		return "the rules have no domain " + quote(w.Domain)
	}
	how, why := w.walk()
	if why != "" {
		return why
	}
	if !slices.ContainsFunc(w.choices(), func(ls []*Limit) bool { return slices.ContainsFunc(ls, w.isTarget) }) {
		return "the rule " + w.leaf.Path + " does not have the limit for it any more"
	}
	switch {
	case how != byWildcard || !w.leaf.ShareThreshold:
		if why := unwritable(w.leaf.Key, w.value, how == byValue); why != "" {
			return why
		}
	case len(w.leaf.Overrides) > 0:
		return "all values of " + w.leaf.Path + " share the counter, and the rule has overrides for some of them"
	default:
		w.value = "*" // all of them share the counter
	}
	w.tiersDiffer = !w.oneForAll()
	if w.shadowed() || w.tiersDiffer {
		w.copied = w.outermost()
	}
	if why := w.aliased(); why != "" {
		return why
	}
	switch {
	case w.copied != nil && !(w.shadowed() && w.tiersDiffer):
		return w.uncopyable()
	case w.shadowed():
		return "the rule " + w.leaf.Path + " has shadow_mode, and refuses nothing"
	case w.tiersDiffer:
		return "the tiers of the rule " + w.leaf.Path + " differ, and it is for this one value already: change it there"
	}
	return ""
}

// aliased returns why lines at their place would change other rules too: an alias or a
// merge key writes it for several.
func (w *keyWriter) aliased() string {
	at := w.leaf
	if w.copied != nil {
		at = w.copied
	}
	over := at.node.pair("overrides")
	if w.copied == nil && over != nil && over.merged {
		return "the overrides of the rule " + at.Path + " come from a merge key"
	}
	for _, r := range w.set.rules {
		if r != at && (r.node == at.node || w.copied == nil && r.node.shares(at.node)) {
			return "the rule " + at.Path + " is written once for several rules, by an alias, and " + r.Path + " would change too"
		}
	}
	return ""
}

// shares reports whether n has something that is written in m, by an alias or a merge
// key: what is added to m, or to the overrides there, is then added to n.
func (n *node) shares(m *node) bool {
	for i := range m.pairs {
		p := &m.pairs[i]
		if p.merged {
			continue
		}
		for j := range n.pairs {
			if q := &n.pairs[j]; q.value == p.value && (q.merged || p.name == "overrides") {
				return true
			}
		}
	}
	return false
}

// walk follows the entries to the rule, and notes which values the rules leave open.
func (w *keyWriter) walk() (how, string) {
	w.values = map[*Rule]string{}
	lv := &w.domain.root
	for i := range w.Entries {
		e := &w.Entries[i]
		rule, how := lv.find(e)
		if rule == nil {
			return how, "the rules have no rule for its entries any more"
		}
		w.leaf, w.value = rule, e.Value
		last := rule.isLast(w.Entries[i+1:])
		if v, open := free(rule, e, how); open {
			w.values[rule] = v
			if !last && w.copied == nil {
				w.copied = rule
			}
		}
		if last {
			return how, ""
		}
		lv = &rule.kids
	}
	return unmatched, "it names no entries"
}

// outermost returns the first rule on the way that leaves its value open: the one to
// copy so that the key has a rule of its own.
func (w *keyWriter) outermost() *Rule {
	if w.copied == nil && w.isOpen(w.leaf) {
		return w.leaf
	}
	return w.copied
}

// oneForAll reports whether one override does for the key what the change does
// whatever tier the key is of.
func (w *keyWriter) oneForAll() bool {
	first := ""
	for i, ls := range w.choices() { // of tiers
		if !slices.ContainsFunc(ls, w.isTarget) {
			return false
		}
		text := flow(w.changed(ls, false))
		if i > 0 && text != first {
			return false
		}
		first = text
	}
	return true
}

// uncopyable returns why the rules from w.copied down cannot be written again for
// one value.
func (w *keyWriter) uncopyable() string {
	for r := w.leaf; r != nil; r = r.Parent {
		if v, open := w.values[r]; open {
			if why := unwritable(r.Key, v, false); why != "" {
				return why
			}
		}
	}
	again := "the rule " + w.copied.Path + " would have to be written again for this value alone, and "
	if w.domain.replaces {
		return again + "limits of the domain replace others by their names"
	}
	for _, r := range w.set.rules {
		if !slices.Contains(r.Chain(), w.copied) {
			continue
		}
		for _, l := range r.All() {
			switch {
			case l.Limit == nil:
			case l.Rollout > 0 && l.Rollout < 100:
				return again + "the rollout of the limit " + quote(l.Name) + " would choose other keys"
			case l.Pool != nil && strings.HasPrefix(l.Pool.Scope, l.Scope):
				return again + "the limit " + quote(l.Name) + " would borrow from a pool of its own"
			}
		}
	}
	return ""
}

// lines returns the lines of the change.
func (w *keyWriter) lines() string {
	if w.copied != nil {
		var b strings.Builder
		fmt.Fprintf(&b, "# %s:%d, into the list of the rule %s: a rule for this value, which goes before it\n", w.copied.File, w.copied.Line, w.copied.Path)
		block(&b, w.copy(w.copied), "- ", "  ")
		return b.String()
	}
	member := w.member()
	line, at, text := w.leaf.Line, "beside its key", flowPair(&member)
	switch old := w.leaf.node.find("overrides"); {
	case old == nil:
		text = "overrides: {" + text + "}"
	case old.pair(w.value) != nil:
		line, at = old.pair(w.value).key.line, "in the place of its override for "+quote(w.value)
	default:
		line, at = old.line, "into its overrides"
	}
	return fmt.Sprintf("# %s:%d, rule %s: %s\n%s\n", w.leaf.File, line, w.leaf.Path, at, text)
}
