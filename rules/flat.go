package rules

import (
	"slices"
)

// checkFlat reports what envoyproxy/ratelimit refuses before it looks at the
// structure of a file: keys that are not words, lists of other things than
// blocks, values of other types than text, integer and boolean. Only what that
// service knows is looked at; what is ours has its own rules.
func (r *report) checkFlat(n *node) {
	if n.kind != mapping {
		return
	}
	for _, p := range n.pairs {
		if t := p.key.resolve(); t != asString {
			r.fault(p.key, "", "put it in quotes if it is meant", keyNotText, p.key.text)
			continue
		}
		if p.name == "metadata" || !slices.Contains(flatKeys, p.name) {
			continue
		}
		switch p.value.kind {
		case mapping:
			r.checkFlat(p.value)
		case list:
			for _, item := range p.value.items {
				if item.kind != mapping {
					r.fault(item, "", "", notBlocks, item.text)
					continue
				}
				r.checkFlat(item)
			}
		case scalar:
			if p.value.resolve() == asFloat {
				r.fault(p.value, "", "put it in quotes if it is text", badScalar)
			}
		}
	}
}
