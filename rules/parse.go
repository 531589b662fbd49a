package rules

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/yamldoc"
)

// parseDocument reads the document of src. It returns nil when there is none, or when it reported a fault.
func (r *report) parseDocument(src []byte, opt *Options) *node {
	if len(src) > opt.MaxBytes {
		r.addFault(nil, "", "raise Options.MaxBytes, or split the file", "file is larger than %d bytes", opt.MaxBytes)
		return nil
	}
	if at := invalidText(src); at >= 0 {
		line, column := bytes.Count(src[:at], []byte("\n"))+1, at-bytes.LastIndexByte(src[:at], '\n')
		r.addError(&Error{Line: line, Column: column, Msg: "not a text file: it holds bytes that are neither UTF-8 nor printable"})
		return nil
	}
	doc, fault := yamldoc.Read(src)
	if fault != nil {
		r.addError(&Error{Line: fault.Line, Column: fault.Column, Msg: fault.Msg, Hint: fault.Hint})
		return nil
	}
	if doc == nil {
		return nil
	}
	c := &converter{report: r, opt: opt, anchors: map[*yaml.Node]*node{}}
	n := c.convert(doc.Content[0], 0)
	if c.failed || n.kind == null {
		return nil
	}
	return n
}

// invalidText returns the offset of the first byte that no YAML file has, or
// -1.
func invalidText(src []byte) int {
	for i, c := range string(src) {
		switch {
		case c == '\ufffd' && !bytes.HasPrefix(src[i:], []byte("\ufffd")),
			c < 0x20 && c != '\t' && c != '\n' && c != '\r', c == 0x7f:
			return i
		}
	}
	return -1
}

// converter makes nodes of the parser's tree.
type converter struct {
	*report
	opt *Options
	// anchors holds what aliases stand for; nil while it is being converted.
	anchors map[*yaml.Node]*node
	failed  bool
}

// failAtNode reports a fault that ends the conversion.
func (c *converter) failAtNode(at *yaml.Node, hint, format string, args ...any) *node {
	n := c.newNodeAt(at, null)
	if !c.failed {
		c.addFault(n, "", hint, format, args...)
	}
	c.failed = true
	return n
}

// newNodeAt returns a new node of kind k where at stands.
func (c *converter) newNodeAt(at *yaml.Node, k kind) *node {
	return &node{kind: k, file: c.file, line: at.Line, col: at.Column, size: 1}
}

// countChild counts child as a part of n, and fails when the document with all its
// aliases written out is larger than it may be.
func (c *converter) countChild(n, child *node, at *yaml.Node) {
	n.size += child.size
	if n.size > c.opt.MaxNodes {
		c.failAtNode(at, "raise Options.MaxNodes if this is meant", "more than %d values once aliases are written out", c.opt.MaxNodes)
	}
}

func (c *converter) convert(at *yaml.Node, depth int) *node {
	if c.failed {
		return c.newNodeAt(at, null)
	}
	if depth > c.opt.MaxDepth {
		return c.failAtNode(at, "raise Options.MaxDepth if this is meant", "nested more than %d deep", c.opt.MaxDepth)
	}
	if at.Kind == yaml.AliasNode {
		if n, begun := c.anchors[at.Alias]; begun && n == nil {
			return c.failAtNode(at, "", "*%s stands within what it means", at.Value)
		}
		return c.convert(at.Alias, depth)
	}
	if at.Anchor == "" {
		return c.convertNode(at, depth)
	}
	if n := c.anchors[at]; n != nil {
		return n
	}
	c.anchors[at] = nil
	n := c.convertNode(at, depth)
	c.anchors[at] = n
	return n
}

// convertNode converts what is no alias.
func (c *converter) convertNode(at *yaml.Node, depth int) *node {
	if at.Style&yaml.TaggedStyle != 0 && at.Tag != "!!str" {
		return c.failAtNode(at, "leave it out", "tag %s is not known here", at.Tag)
	}
	switch at.Kind {
	case yaml.MappingNode:
		n := c.newNodeAt(at, mapping)
		for i := 0; i+1 < len(at.Content); i += 2 {
			c.addPair(n, at.Content[i], at.Content[i+1], depth+1)
		}
		n.dropMerged()
		return n
	case yaml.SequenceNode:
		n := c.newNodeAt(at, list)
		for _, v := range at.Content {
			item := c.convert(v, depth+1)
			n.items = append(n.items, item)
			c.countChild(n, item, v)
		}
		return n
	}
	n := c.newNodeAt(at, scalar)
	n.text = at.Value
	n.quoted = at.Style != 0
	if !n.quoted && isNull(n.text) {
		n.kind = null
	}
	return n
}

// addPair adds a key and its value to the mapping n, or what a merge key stands
// for.
func (c *converter) addPair(n *node, key, value *yaml.Node, depth int) {
	if key.Value == "<<" && key.Kind == yaml.ScalarNode && key.Style == 0 {
		c.mergeKeys(n, c.convert(value, depth), value)
		return
	}
	k, v := c.convert(key, depth), c.convert(value, depth)
	if c.failed {
		return
	}
	if k.kind == list || k.kind == mapping {
		c.failAtNode(key, "", "a key must be a word")
		return
	}
	n.pairs = append(n.pairs, pair{key: k, value: v, name: k.text})
	c.countChild(n, v, value)
	c.countChild(n, k, key)
}

// mergeKeys adds to n the keys of from, marked as merged.
func (c *converter) mergeKeys(n, from *node, at *yaml.Node) {
	switch from.kind {
	case list:
		for _, f := range from.items {
			c.mergeKeys(n, f, at)
		}
		return
	case mapping:
	default:
		c.failAtNode(at, "write <<: *name", "<< merges a block of keys, not %s", from.kind)
		return
	}
	for _, p := range from.pairs {
		p.merged = true
		n.pairs = append(n.pairs, p)
		c.countChild(n, p.value, at)
		if n.size++; c.failed {
			return
		}
	}
}

// dropMerged takes out the merged pairs whose keys are written out as well, or
// merged before.
func (n *node) dropMerged() {
	has := make(map[string]bool)
	for _, p := range n.pairs {
		if !p.merged {
			has[p.name] = true
		}
	}
	if len(has) == len(n.pairs) {
		return // the usual case: nothing is merged
	}
	n.pairs = slices.DeleteFunc(n.pairs, func(p pair) bool {
		isHidden := p.merged && has[p.name]
		has[p.name] = true
		return isHidden
	})
}
