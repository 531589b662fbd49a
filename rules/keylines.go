package rules

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	for other, l := range d.deny {
		if other != key && at != nil && l.first == at {
			return true
		}
	}
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		for _, name := range []string{"deny", "allow"} {
			if n := r.node.find(name); n != nil && at != nil && (n == at || len(n.items) > 0 && n.items[0] == at) {
				return true
			}
		}
		return false
	})
}

// maxKeyLines bounds lines in bytes, so that none is cut where they are kept.
const maxKeyLines = 3 << 10

func noKeyLines(why string) string { return "# no lines in a rules file do this: " + why + "\n" }

// keyWriter writes the lines of one KeyChange.
type keyWriter struct {
	KeyChange
	set    *Set
	domain *domain
	// leaf is the rule of the limit, value what selects the key there.
	leaf  *Rule
	value string
	// copied is the outermost rule that must be copied for a value of its own, nil
	// for none; values are by the rules from there to leaf.
	copied *Rule
	values map[*Rule]string
	// tiersDiffer: the limits of the rule's tiers differ, so that one override cannot
	// stand for all.
	tiersDiffer bool
}

// find fills in the rule of the change, and returns why there are no lines.
func (w *keyWriter) find() string {
	if w.set.dialect.concatenate {
		return "rules in the dialect of Envoy have no overrides"
	}
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

// unwritable returns why a file cannot name a value. Fixed: the rules name it.
func unwritable(key, value string, fixed bool) string {
	switch {
	case fixed:
		return ""
	case value == "":
		return "the value of " + key + " is empty, and a file has no word for that"
	case isPattern(value):
		return "a * in a value is a wildcard there, so none stands for " + quote(value) + " alone"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "the value of " + key + " has bytes that a file cannot hold"
	}
	return ""
}

// shadowed reports whether the rule as it is written refuses nothing, so that a ban
// has no effect there.
func (w *keyWriter) shadowed() bool { return w.Action == BanKey && w.leaf.Shadow }

// outermost returns the first rule on the way that leaves its value open: the one to
// copy so that the key has a rule of its own.
func (w *keyWriter) outermost() *Rule {
	if w.copied != nil {
		return w.copied
	}
	if _, open := w.values[w.leaf]; open {
		return w.leaf
	}
	return nil
}

// isTarget reports whether l is what the change is about. Limits of one scope share
// the counters of a key.
func (w *keyWriter) isTarget(l *Limit) bool { return l.Limit != nil && l.Scope == w.Scope }

// chosen returns the limits that hold for the value by an override of its own, and
// whether there is one.
func (w *keyWriter) chosen() ([]*Limit, bool) {
	if w.leaf.overrides == nil {
		return nil, false
	}
	return w.leaf.overrides.find(w.value)
}

// oneForAll reports whether one override does for the key what the change does
// whatever tier the key is of.
func (w *keyWriter) oneForAll() bool {
	first := ""
	for i, ls := range w.choices() { // of tiers
		if !slices.ContainsFunc(ls, w.isTarget) {
			return false
		}
		text := w.flow(w.changed(ls, false))
		if i > 0 && text != first {
			return false
		}
		first = text
	}
	return true
}

// choices returns the lists of limits that can hold for the value: those of its
// override, else those of the rule and of each of its tiers.
func (w *keyWriter) choices() [][]*Limit {
	if ls, ok := w.chosen(); ok {
		return [][]*Limit{ls}
	}
	all := [][]*Limit{w.leaf.Limits}
	for _, t := range w.leaf.Tiers {
		all = append(all, t.Limits)
	}
	return all
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
		if r == w.copied {
			break
		}
	}
	if w.domain.replaces {
		return "the rule " + w.copied.Path + " would have to be written again for this value alone, and limits of the domain replace others by their names"
	}
	why := ""
	for _, r := range w.set.rules {
		for up := r; up != nil && r.Domain == w.Domain; up = up.Parent {
			if up != w.copied {
				continue
			}
			r.all(func(l *Limit) {
				switch {
				case l.Limit == nil || why != "":
				case l.Rollout > 0 && l.Rollout < 100:
					why = "the rule " + w.copied.Path + " would have to be written again for this value alone, and the rollout of the limit " + quote(l.Name) + " would choose other keys"
				case l.Pool != nil && strings.HasPrefix(l.Pool.Scope, l.Scope):
					why = "the rule " + w.copied.Path + " would have to be written again for this value alone, and the limit " + quote(l.Name) + " would borrow from a pool of its own"
				}
			})
		}
	}
	return why
}

// lines returns the lines of the change.
func (w *keyWriter) lines() string {
	var b strings.Builder
	if w.copied != nil {
		fmt.Fprintf(&b, "# %s:%d, into the list of the rule %s: a rule for this value, which goes before it\n", w.copied.File, w.copied.Line, w.copied.Path)
		block(&b, w.copy(w.copied), "- ", "  ")
		return b.String()
	}
	member := w.member()
	switch old := w.leaf.node.find("overrides"); {
	case old == nil:
		fmt.Fprintf(&b, "# %s:%d, rule %s: beside its key\n", w.leaf.File, w.leaf.Line, w.leaf.Path)
		fmt.Fprintf(&b, "overrides: {%s}\n", w.flowPair(&member))
	case old.pair(w.value) != nil:
		fmt.Fprintf(&b, "# %s:%d, rule %s: in the place of its override for %s\n", w.leaf.File, old.pair(w.value).key.line, w.leaf.Path, quote(w.value))
		b.WriteString(w.flowPair(&member) + "\n")
	default:
		fmt.Fprintf(&b, "# %s:%d, rule %s: into its overrides\n", w.leaf.File, old.line, w.leaf.Path)
		b.WriteString(w.flowPair(&member) + "\n")
	}
	return b.String()
}

// member returns the override that makes the change for the value.
func (w *keyWriter) member() pair { return pairOf(quotedOf(w.value), w.changed(w.choices()[0], true)) }

// copy returns the descriptor of r with what is beneath it, for one value, with the
// change in it.
func (w *keyWriter) copy(r *Rule) *node {
	out := &node{kind: mapping}
	for _, p := range r.node.pairs {
		switch {
		case strings.EqualFold(p.name, "value") || p.name == "share_threshold" && w.isOpen(r):
			continue
		case p.name == "descriptors":
			p.value = w.copyList(r, p.value)
		case r == w.leaf && (p.name == "overrides" && !w.tiersDiffer || p.name == "shadow_mode" && w.shadowed()):
			continue
		case r == w.leaf && w.tiersDiffer:
			p = w.replacedPair(p)
		}
		out.pairs = append(out.pairs, p)
		if strings.EqualFold(p.name, "key") {
			if v, open := w.values[r]; open {
				out.pairs = append(out.pairs, pairOf(scalarOf("value"), quotedOf(v)))
			} else if r.Value != "" {
				out.pairs = append(out.pairs, pairOf(scalarOf("value"), quotedOf(r.Value)))
			}
		}
	}
	if r == w.leaf && !w.tiersDiffer {
		over := &node{kind: mapping}
		if old := r.node.find("overrides"); old != nil {
			for _, p := range old.pairs {
				if p.name != w.value {
					over.pairs = append(over.pairs, p)
				}
			}
		}
		over.pairs = append(over.pairs, w.member())
		out.pairs = append(out.pairs, pairOf(scalarOf("overrides"), over))
	}
	return out
}

func (w *keyWriter) isOpen(r *Rule) bool {
	_, open := w.values[r]
	return open
}

// copyList returns the descriptors beneath r with the change in them.
func (w *keyWriter) copyList(r *Rule, n *node) *node {
	out := &node{kind: list}
	for _, item := range n.items {
		for kid := w.leaf; kid != nil && kid != r; kid = kid.Parent {
			if kid.Parent == r && kid.node == item {
				if w.isOpen(kid) {
					out.items = append(out.items, w.copy(kid)) // beside the one for all values
				} else {
					item = w.copy(kid)
				}
			}
		}
		out.items = append(out.items, item)
	}
	return out
}

// replaced returns n, which has limits of the leaf in it, with the change in each of
// them that it is about. They take no settings from the rule's own limit any more:
// those of the pairs are written out, unless they or the rule say otherwise.
func (w *keyWriter) replaced(n *node, settings []pair) *node {
	var at *Limit
	w.leaf.all(func(l *Limit) {
		if l.at == n {
			at = l
		}
	})
	out := *n
	switch {
	case at != nil:
		out = *asBlock(n)
		out.pairs = slices.Clone(out.pairs)
		for _, p := range settings {
			if at.takes(p.name) && out.find(p.name) == nil {
				out.pairs = append(out.pairs, p)
			}
		}
		if w.isTarget(at) {
			return w.change(at, &out)
		}
	case n.kind == mapping:
		out.pairs = slices.Clone(n.pairs)
		for i := range out.pairs {
			out.pairs[i].value = w.replaced(out.pairs[i].value, settings)
		}
	case n.kind == list:
		out.items = slices.Clone(n.items)
		for i := range out.items {
			out.items[i] = w.replaced(out.items[i], settings)
		}
	}
	return &out
}

// takes reports whether a setting of the rule has an effect on l.
func (l *Limit) takes(setting string) bool {
	switch by := takes[setting]; {
	case l.Unlimited, l.Denies && slices.Contains(needsCount, setting):
		return false
	case by != nil && !slices.Contains(by, l.Algorithm.Name()):
		return false
	}
	switch needsMode[setting] {
	case "soft":
		return l.Excess > 0
	case "elastic":
		return l.Pool != nil
	}
	return true
}

// replacedPair returns one pair of the leaf with the change in it. The one limit of a
// rule becomes a list, from which tiers and overrides take no settings.
func (w *keyWriter) replacedPair(p pair) pair {
	var settings []pair
	switch p.name {
	case "limit", "rate_limit":
		for name := range notInherited {
			settings = append(settings, keep(w.leaf.node, name)...)
		}
		p = pairOf(scalarOf("limits"), &node{kind: list, items: []*node{w.replaced(p.value, settings)}})
	case "limits":
		p.value = w.replaced(p.value, nil)
	case "tiers", "overrides":
		for _, name := range []string{"limit", "rate_limit"} {
			n := w.leaf.node.find(name)
			if n == nil || n.kind != mapping {
				continue
			}
			for _, of := range n.pairs {
				if _, ok := settingNames[of.name]; ok && !notInherited[of.name] && w.leaf.node.find(of.name) == nil {
					settings = append(settings, of)
				}
			}
		}
		p.value = w.replaced(p.value, settings)
	}
	return p
}

// changed returns the limits of one choice with the change in them, as the value of
// an override. Named: with their names.
func (w *keyWriter) changed(ls []*Limit, named bool) *node {
	if w.Action == BanKey && !w.domain.replaces {
		i := slices.IndexFunc(ls, w.isTarget)
		return w.named(w.change(ls[i], ls[i].at), ls[i], named)
	}
	out := &node{kind: list}
	for _, l := range ls {
		n := asBlock(l.at)
		if w.isTarget(l) {
			n = w.change(l, n)
		}
		out.items = append(out.items, w.named(n, l, named || len(ls) > 1))
	}
	if len(out.items) == 1 {
		return out.items[0]
	}
	return out
}

// named returns the block n of the limit l with its name, or without.
func (w *keyWriter) named(n *node, l *Limit, with bool) *node {
	out := without(n, "name")
	if name := l.alias; with && name != "" {
		out.pairs = append([]pair{pairOf(scalarOf("name"), quotedOf(name))}, out.pairs...)
	}
	return out
}

// numberKeys are the keys of a limit that hold its numbers.
var numberKeys = []string{"limit", "requests_per_unit", "unit", "unit_multiplier", "period", "ttl", "burst"}

// change returns the node n of the limit l as a block with the change in it.
func (w *keyWriter) change(l *Limit, n *node) *node {
	n = asBlock(n)
	switch w.Action {
	case BanKey:
		return &node{kind: mapping, pairs: append(keep(n, "name", "replaces", "scope"), pairOf(scalarOf("limit"), scalarOf("0")), pairOf(scalarOf("mode"), scalarOf("hard")))}
	case AllowKey:
		n = without(n, "mode", "exceed", "pool", "ceiling", "rollout")
		n.pairs = append(n.pairs, pairOf(scalarOf("mode"), scalarOf("shadow")))
		return n
	}
	n = without(n, append(numberKeys, "headroom", "ceiling", "phase")...)
	add := func(key, value string) { n.pairs = append(n.pairs, pairOf(scalarOf(key), scalarOf(value))) }
	if l.Traits()&weir.Leases != 0 {
		add("limit", strconv.FormatInt(w.Count, 10))
		add("ttl", ttlOf(w.Period))
	} else {
		add("limit", Rate{w.Count, w.Period}.String())
	}
	if slices.Contains(takes["burst"], l.Algorithm.Name()) {
		burst := w.Burst
		if burst == 0 {
			burst = w.Count
		}
		add("burst", strconv.FormatInt(burst, 10))
	}
	v, err := l.Variant(w.Count, w.Period, w.Burst)
	if err != nil {
		return n // such an override has no effect
	}
	if l.Headroom != nil {
		units := &node{kind: list}
		for _, r := range v.Headroom {
			units.items = append(units.items, scalarOf(strconv.FormatInt(r, 10)))
		}
		n.pairs = append(n.pairs, pairOf(scalarOf("headroom"), units))
	}
	if v.Ceiling > 0 {
		add("ceiling", strconv.FormatInt(v.Ceiling, 10))
	}
	if l.Phase > 0 && l.takes("phase") {
		add("phase", ttlOf(v.Phase))
	}
	if most := v.Consistency.MaxOvershoot; most > 0 && l.Consistency.MaxOvershoot > 0 {
		c := l.Consistency
		n = without(n, "consistency")
		block := &node{kind: mapping, pairs: []pair{pairOf(scalarOf("mode"), scalarOf(c.Mode.String())), pairOf(scalarOf("max_overshoot"), scalarOf(strconv.FormatInt(most, 10)))}}
		if c.SyncInterval > 0 {
			block.pairs = append(block.pairs, pairOf(scalarOf("sync_interval"), scalarOf(c.SyncInterval.String())))
		}
		if c.Optimistic {
			block.pairs = append(block.pairs, pairOf(scalarOf("cold"), scalarOf("optimistic")))
		}
		n.pairs = append(n.pairs, pairOf(scalarOf("consistency"), block))
	}
	return n
}

// Nodes that no file has.

func scalarOf(s string) *node { return &node{kind: scalar, text: s} }

func quotedOf(s string) *node { return &node{kind: scalar, text: s, quoted: true} }

func pairOf(key, value *node) pair { return pair{key: key, value: value, name: key.text} }

// asBlock returns the node of a limit as a block of keys.
func asBlock(n *node) *node {
	if n.kind == mapping {
		return n
	}
	if n.text == "unlimited" {
		return &node{kind: mapping, pairs: []pair{pairOf(scalarOf("unlimited"), scalarOf("true"))}}
	}
	return &node{kind: mapping, pairs: []pair{pairOf(scalarOf("limit"), n)}}
}

// keep returns the pairs of n with one of the names.
func keep(n *node, names ...string) []pair {
	return slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return !slices.Contains(names, p.name) })
}

// without returns n without the pairs of the names.
func without(n *node, names ...string) *node {
	out := *n
	out.pairs = slices.DeleteFunc(slices.Clone(n.pairs), func(p pair) bool { return slices.Contains(names, p.name) })
	return &out
}

// unquoted matches text that means the same in a file with and without quotes around it,
// wherever it is.
var unquoted = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./%+-]*$`)

// flow writes n in one line.
func (w *keyWriter) flow(n *node) string {
	switch n.kind {
	case mapping:
		all := make([]string, len(n.pairs))
		for i := range n.pairs {
			all[i] = w.flowPair(&n.pairs[i])
		}
		return "{" + strings.Join(all, ", ") + "}"
	case list:
		all := make([]string, len(n.items))
		for i, item := range n.items {
			all[i] = w.flow(item)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return scalarText(n)
}

func (w *keyWriter) flowPair(p *pair) string { return scalarText(p.key) + ": " + w.flow(p.value) }

// scalarText writes a scalar as it was written, or in quotes where that could be
// read otherwise.
func scalarText(n *node) string {
	if n.kind == null {
		return "null"
	}
	if !n.quoted && unquoted.MatchString(n.text) {
		return n.text
	}
	return strconv.Quote(n.text)
}

// block writes a descriptor with one key a line. The first line begins with first,
// the others with rest.
func block(b *strings.Builder, n *node, first, rest string) {
	w := &keyWriter{}
	for i := range n.pairs {
		p := &n.pairs[i]
		b.WriteString(first)
		first = rest
		if p.name != "descriptors" || p.value.kind != list {
			b.WriteString(w.flowPair(p) + "\n")
			continue
		}
		b.WriteString("descriptors:\n")
		for _, item := range p.value.items {
			block(b, item, rest+"  - ", rest+"    ")
		}
	}
}
