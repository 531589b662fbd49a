package rules

import (
	"slices"
	"strings"
)

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
			over.pairs = without(old, w.value).pairs
		}
		over.pairs = append(over.pairs, w.member())
		out.pairs = append(out.pairs, pairOf(scalarOf("overrides"), over))
	}
	return out
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
	limits := w.leaf.All()
	out := *n
	switch i := slices.IndexFunc(limits, func(l *Limit) bool { return l.at == n }); {
	case i >= 0:
		at := limits[i]
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
