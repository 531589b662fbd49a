package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse reads the first document of src. It returns nil when there is none, or
// when it reported a fault.
func (r *report) parse(src []byte, lim limits) *node {
	if len(src) > lim.bytes {
		r.bad(nil, "", "raise Options.MaxBytes, or split the file", "file is larger than %d bytes", lim.bytes)
		return nil
	}
	if at := invalidText(src); at >= 0 {
		line, col := lineOf(src, at)
		r.add(&Error{Line: line, Column: col, Msg: "not a text file: it holds bytes that are neither UTF-8 nor printable"})
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if t := tooDeep(tokens, lim.depth); t != nil {
		r.add(&Error{Line: t.Position.Line, Column: t.Position.Column, Msg: fmt.Sprintf("nested more than %d deep", lim.depth),
			Hint: "raise Options.MaxDepth if this is meant"})
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		c := &converter{report: r, max: lim.nodes, anchors: map[string]*node{}}
		n := c.convert(doc.Body)
		if c.failed {
			return nil
		}
		return n
	}
	return nil
}

// limits are the caps on one file.
type limits struct {
	bytes, depth, nodes int
}

// syntax reports an error of the YAML parser.
func (r *report) syntax(err error) {
	e := &Error{Msg: err.Error()}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Msg = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = t.Position.Line, t.Position.Column
		}
	}
	e.Msg, _, _ = strings.Cut(e.Msg, "\n")
	r.add(&Error{Line: e.Line, Column: e.Column, Msg: fmt.Sprintf(r.dialect.texts[badYAML], e.Msg)})
}

// invalidText returns the offset of the first byte that no YAML file has, or
// -1.
func invalidText(src []byte) int {
	for i, c := range string(src) {
		switch {
		case c == '\ufffd' && !strings.HasPrefix(string(src[i:min(i+3, len(src))]), "\ufffd"),
			c < 0x20 && c != '\t' && c != '\n' && c != '\r', c == 0x7f:
			return i
		}
	}
	return -1
}

func lineOf(src []byte, at int) (line, col int) {
	before := string(src[:at])
	return strings.Count(before, "\n") + 1, at - strings.LastIndexByte(before, '\n')
}

// tooDeep returns the first token that stands deeper than max, so that no file
// can exhaust the stack of the parser, which recurses.
func tooDeep(tokens token.Tokens, max int) *token.Token {
	var columns []int
	flow := 0
	push := func(col int) {
		for len(columns) > 0 && columns[len(columns)-1] >= col {
			columns = columns[:len(columns)-1]
		}
		columns = append(columns, col)
	}
	prefixes := 0
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			push(t.Position.Column)
		case token.MappingValueType:
			if i > 0 {
				push(tokens[i-1].Position.Column)
			}
		}
		// Anchors and tags nest too: `&a &b &c` each hold the next.
		switch t.Type {
		case token.AnchorType, token.TagType, token.MappingKeyType:
			prefixes++
		case token.StringType, token.MappingValueType, token.SequenceEntryType, token.CollectEntryType:
			prefixes = 0
		}
		if flow+len(columns)+prefixes > max {
			return t
		}
	}
	return nil
}

// converter makes nodes of the parser's tree.
type converter struct {
	*report
	anchors map[string]*node
	max     int
	failed  bool
}

func (c *converter) fail(at ast.Node, hint, format string, args ...any) *node {
	c.failed = true
	n := c.place(at, null)
	c.bad(n, "", hint, format, args...)
	return n
}

// place returns a new node of kind k where at stands.
func (c *converter) place(at ast.Node, k kind) *node {
	n := &node{kind: k, file: c.file, size: 1}
	if t := at.GetToken(); t != nil && t.Position != nil {
		n.line, n.col = t.Position.Line, t.Position.Column
	}
	return n
}

// grow counts child as a part of n, and fails when the document with all its
// aliases written out is larger than it may be.
func (c *converter) grow(n, child *node, at ast.Node) {
	n.size += child.size
	if n.size > c.max && !c.failed {
		c.fail(at, "raise Options.MaxNodes if this is meant", "more than %d values once aliases are written out", c.max)
	}
}

func (c *converter) convert(at ast.Node) *node {
	if c.failed {
		return &node{kind: null}
	}
	switch t := at.(type) {
	case *ast.MappingNode:
		n := c.place(firstKey(t), mapping)
		for _, v := range t.Values {
			c.pair(n, v)
		}
		n.dropMerged()
		return n
	case *ast.MappingValueNode:
		n := c.place(t.Key, mapping)
		c.pair(n, t)
		return n
	case *ast.SequenceNode:
		n := c.place(t, list)
		for _, v := range t.Values {
			item := c.convert(v)
			n.items = append(n.items, item)
			c.grow(n, item, v)
		}
		return n
	case *ast.AnchorNode:
		n := c.convert(t.Value)
		c.anchors[t.Name.GetToken().Value] = n
		return n
	case *ast.AliasNode:
		name := t.Value.GetToken().Value
		n, ok := c.anchors[name]
		if !ok {
			return c.fail(at, "define it above with &"+name, "unknown alias *%s", name)
		}
		return n
	case *ast.TagNode:
		if t.Start.Value == "!!str" {
			n := *c.convert(t.Value)
			n.quoted = true
			return &n
		}
		return c.fail(at, "leave it out", "tag %s is not known here", t.Start.Value)
	case *ast.LiteralNode:
		n := c.place(t, scalar)
		n.text, n.quoted = t.Value.Value, true
		return n
	case *ast.NullNode:
		return c.place(t, null)
	}
	return c.scalar(at)
}

// firstKey returns the node that stands where the mapping begins: the parser
// places a block mapping at its first colon.
func firstKey(m *ast.MappingNode) ast.Node {
	if !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key
	}
	return m
}

func (c *converter) scalar(at ast.Node) *node {
	n := c.place(at, scalar)
	t := at.GetToken()
	if t == nil {
		return c.fail(at, "", "this is not a value")
	}
	n.text = t.Value
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType:
		n.quoted = true
	}
	if s, ok := at.(*ast.StringNode); ok {
		n.text = s.Value
	}
	if !n.quoted && isNull(n.text) {
		n.kind = null
	}
	return n
}

// pair adds v to the mapping n, or what a merge key stands for.
func (c *converter) pair(n *node, v *ast.MappingValueNode) {
	if _, ok := v.Key.(*ast.MergeKeyNode); ok {
		c.merge(n, c.convert(v.Value), v)
		return
	}
	key := c.convert(v.Key)
	if key.kind == list || key.kind == mapping {
		c.fail(v.Key, "", "a key must be a word")
		return
	}
	value := c.convert(v.Value)
	if c.failed {
		return
	}
	if value.line == 0 {
		value.file, value.line, value.col = key.file, key.line, key.col
	}
	n.pairs = append(n.pairs, pair{key: key, value: value, name: key.text})
	c.grow(n, value, v)
	c.grow(n, key, v)
}

// merge adds to n the keys of from that n lacks, as `<<` says.
func (c *converter) merge(n, from *node, at *ast.MappingValueNode) {
	switch from.kind {
	case list:
		for _, f := range from.items {
			c.merge(n, f, at)
		}
		return
	case mapping:
	default:
		if !c.failed {
			c.fail(at.Value, "write <<: *name", "<< merges a block of keys, not %s", from.kind)
		}
		return
	}
	has := make(map[string]bool, len(n.pairs))
	for i := range n.pairs {
		has[n.pairs[i].name] = true
	}
	merged := make([]pair, 0, len(from.pairs)+len(n.pairs))
	for _, p := range from.pairs {
		if !has[p.name] {
			p.merged = true
			merged = append(merged, p)
			n.size += p.value.size + 1
		}
	}
	if n.size > c.max {
		c.fail(at, "raise Options.MaxNodes if this is meant", "more than %d values once aliases are written out", c.max)
		return
	}
	n.pairs = append(merged, n.pairs...)
}

// dropMerged takes out the merged pairs whose keys are written out as well.
func (n *node) dropMerged() {
	has := make(map[string]bool, len(n.pairs))
	merged := false
	for i := range n.pairs {
		merged = merged || n.pairs[i].merged
		has[n.pairs[i].name] = has[n.pairs[i].name] || !n.pairs[i].merged
	}
	if !merged {
		return
	}
	kept := n.pairs[:0]
	for _, p := range n.pairs {
		if !p.merged || !has[p.name] {
			kept = append(kept, p)
		}
	}
	n.pairs = kept
}
