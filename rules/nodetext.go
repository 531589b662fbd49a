package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
func flow(n *node) string {
	switch n.kind {
	case mapping:
		all := make([]string, len(n.pairs))
		for i := range n.pairs {
			all[i] = flowPair(&n.pairs[i])
		}
		return "{" + strings.Join(all, ", ") + "}"
	case list:
		all := make([]string, len(n.items))
		for i, item := range n.items {
			all[i] = flow(item)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return scalarText(n)
}

func flowPair(p *pair) string { return scalarText(p.key) + ": " + flow(p.value) }

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
	for i := range n.pairs {
		p := &n.pairs[i]
		b.WriteString(first)
		first = rest
		if p.name != "descriptors" || p.value.kind != list {
			b.WriteString(flowPair(p) + "\n")
			continue
		}
		b.WriteString("descriptors:\n")
		for _, item := range p.value.items {
			block(b, item, rest+"  - ", rest+"    ")
		}
	}
}
