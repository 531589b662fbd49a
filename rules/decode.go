package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/weirlimit/weir/internal/period"
)

// decoder fills the types of schema.go from nodes, and reports what does not
// fit. It goes on after a fault, so that all faults are told at once.
type decoder struct {
	*report
	// path leads to the descriptor being read.
	path string
	// fields caches the keys of each struct type.
	fields map[reflect.Type]*fieldSet
	// room is how many more descriptors may be read.
	room int
}

// fieldSet is what a struct type takes.
type fieldSet struct {
	names  []string
	byName map[string]reflect.StructField
}

func (d *decoder) fieldsOf(t reflect.Type) *fieldSet {
	if f := d.fields[t]; f != nil {
		return f
	}
	set := &fieldSet{byName: map[string]reflect.StructField{}}
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" || strings.HasPrefix(name, ",") {
			continue
		}
		set.names = append(set.names, name)
		set.byName[name] = f
	}
	d.fields[t] = set
	return set
}

// reader is a type that reads itself.
type reader interface {
	readNode(d *decoder, n *node, name string)
}

// stepper is a struct that adds to the path.
type stepper interface{ pathStepOf(n *node) string }

// fillValue fills v from n. name is the key that holds it, for messages.
func (d *decoder) fillValue(n *node, v reflect.Value, name string) {
	if v.CanAddr() {
		if r, ok := v.Addr().Interface().(reader); ok {
			r.readNode(d, n, name)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if n.kind == null {
			d.addEmptyFault(n, name)
			return
		}
		p := reflect.New(v.Type().Elem())
		d.fillValue(n, p.Elem(), name)
		v.Set(p)
	case reflect.Struct:
		d.fillBlock(n, v, name)
	case reflect.Slice:
		d.fillList(n, v, name)
	case reflect.String:
		v.SetString(d.readText(n, name))
	case reflect.Bool:
		v.SetBool(d.readBool(n, name))
	case reflect.Int64:
		v.SetInt(d.readInt(n, name))
	default:
		panic("rules: no reading of " + v.Type().String())
	}
}

// addEmptyFault reports a key without a value where that means nothing.
func (d *decoder) addEmptyFault(n *node, name string) {
	d.addFault(n, d.path, "leave the key out, or give it a value", "%s is empty", name)
}

func (d *decoder) mismatch(n *node, name, want string) {
	d.addFault(n, d.path, formHint(name, n), "%s must be %s, not %s", name, want, n.kind)
}

// expectKind reports whether n is of kind k, and else a fault: name must be what is wanted.
func (d *decoder) expectKind(n *node, k kind, name, want string) bool {
	switch n.kind {
	case k:
		return true
	case null:
		d.addEmptyFault(n, name)
	default:
		d.mismatch(n, name, want)
	}
	return false
}

func (d *decoder) fillList(n *node, v reflect.Value, name string) {
	if !d.expectKind(n, list, name, "a list") {
		return
	}
	for _, item := range n.items {
		if v.Type().Elem() == reflect.TypeFor[*descriptorSpec]() {
			if d.room--; d.room < 0 {
				if d.room == -1 {
					d.addFault(item, d.path, "raise Options.MaxDescriptors if this is meant", "too many descriptors")
				}
				return
			}
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.fillValue(item, e, name)
		if e.Kind() == reflect.Pointer && e.IsNil() {
			continue
		}
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) fillBlock(n *node, v reflect.Value, name string) {
	if !d.expectKind(n, mapping, name, "a block of keys") {
		return
	}
	set := d.fieldsOf(v.Type())
	n, folded := d.foldKeys(n, set)
	if s, ok := v.Addr().Interface().(stepper); ok {
		defer func(was string) { d.path = was }(d.path)
		d.path = joinPath(d.path, s.pathStepOf(n))
	}
	for _, key := range folded {
		d.addWarning(key, d.path, "", "key %q is written %q", key.text, strings.ToLower(key.text))
	}
	v.FieldByName("Node").Set(reflect.ValueOf(n))
	seen := make(map[string]int, len(n.pairs))
	for _, p := range n.pairs {
		if line, ok := seen[p.name]; ok {
			d.addFault(p.key, d.path, "keep one of them", "key %q is already in line %d", p.name, line)
			continue
		}
		seen[p.name] = p.key.line
		f, ok := set.byName[p.name]
		if !ok {
			d.unknown(&p, set)
			continue
		}
		field := v.FieldByIndex(f.Index)
		field.SetZero()
		d.fillValue(p.value, field, p.name)
		if words := f.Tag.Get("enum"); words != "" {
			d.checkWord(p.value, field, p.name, strings.Split(words, ","))
		}
	}
}

// foldKeys returns n with the keys that are known but for their case in lower
// case, and those keys as they stand.
func (d *decoder) foldKeys(n *node, set *fieldSet) (*node, []*node) {
	var folded []*node
	for i, p := range n.pairs {
		lower := strings.ToLower(p.name)
		if _, ok := set.byName[lower]; !ok || lower == p.name {
			continue
		}
		if folded == nil {
			c := *n
			c.pairs = slices.Clone(n.pairs)
			n = &c
		}
		n.pairs[i].name = lower
		folded = append(folded, p.key)
	}
	return n, folded
}

// unknown reports a key that the block has not, and where it belongs.
func (d *decoder) unknown(p *pair, set *fieldSet) {
	rule, limit := d.fieldsOf(reflect.TypeFor[descriptorSpec]()), d.fieldsOf(reflect.TypeFor[limitSpec]())
	d.addFault(p.key, d.path, keyHint(p, set, rule, limit), "unknown key %q", clipped(p.name))
}

// checkWord checks the word of an enumeration.
func (d *decoder) checkWord(n *node, v reflect.Value, name string, words []string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if n.kind == scalar && !slices.Contains(words, v.String()) {
		d.addFault(n, d.path, didYouMean(v.String(), words), "unknown %s %q", name, v.String())
	}
}

func (d *decoder) readText(n *node, name string) string {
	text, _ := d.readScalar(n, name, "text")
	if strings.ContainsFunc(text, unicode.IsControl) {
		d.addFault(n, d.path, "", "%s holds a control character", name)
	}
	return text
}

func (d *decoder) readBool(n *node, name string) bool {
	if _, ok := d.readScalar(n, name, "true or false"); !ok {
		return false
	}
	b, ok := parseBool11(n.text)
	switch {
	case !ok || n.quoted:
		d.addFault(n, d.path, "write true or false", "%s must be true or false, not %q", name, n.text)
	case !strings.EqualFold(n.text, fmt.Sprint(b)):
		d.addFault(n, d.path, fmt.Sprintf("write %t", b), "%s: %q is a boolean in YAML 1.1 and a word in YAML 1.2", name, n.text)
	}
	return b
}

// readInt returns a whole number; 1, which is right almost everywhere, for what is
// none, so that one fault is not told as several.
func (d *decoder) readInt(n *node, name string) int64 {
	if _, ok := d.readScalar(n, name, "a whole number"); !ok {
		if n.kind == null {
			return 0
		}
		return 1
	}
	i, err := period.Count(n.text)
	switch {
	case n.quoted:
		d.addFault(n, d.path, "leave the quotes out", "%s must be a whole number, not text", name)
	case err != nil:
		d.addFault(n, d.path, "", "%s: %s", name, err)
	case i < 0:
		d.addFault(n, d.path, "", "%s must not be negative", name)
	default:
		return i
	}
	return 1
}

// readScalar returns the text of a node that must be a single value.
func (d *decoder) readScalar(n *node, name, want string) (string, bool) {
	if !d.expectKind(n, scalar, name, want) {
		return "", false
	}
	return n.text, true
}

// because reports err at n, with the hint that it may carry.
func (d *decoder) because(n *node, name string, err error) {
	hint := ""
	if unit, ok := errors.AsType[*period.UnitError](err); ok {
		hint = didYouMean(unit.Word, period.Units)
	}
	d.addFault(n, d.path, hint, "%s: %s", name, err)
}
