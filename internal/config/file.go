package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/internal/yamldoc"
	"github.com/weirlimit/weir/rules"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// LoadFile reads the configuration file at path over c: what the file does not
// name stays as it is. Every unknown or repeated key and every value of the
// wrong form is an error that names its line; all are reported.
func (c *Config) LoadFile(path string) error {
	data, err := regular.Read(path, maxConfig)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	doc, fault := yamldoc.Read(data)
	if fault != nil {
		return &rules.Error{File: path, Line: fault.Line, Column: fault.Column, Msg: fault.Msg, Hint: fault.Hint}
	}
	if doc == nil {
		return nil // nothing but comments
	}
	f := file{path: path}
	if other := otherFile(doc.Content[0]); other != "" {
		f.addError(doc.Content[0], "this file is %s", other)
		return errors.Join(f.errs...)
	}
	f.section(reflect.ValueOf(c).Elem(), doc.Content[0], "")
	return errors.Join(f.errs...)
}

// file is a configuration file that is being read.
type file struct {
	path string
	errs []error
	// values counts those that were read.
	values int
}

func (f *file) addError(n *yaml.Node, format string, args ...any) {
	f.errs = append(f.errs, &rules.Error{File: f.path, Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...)})
}

// section fills the struct v from the mapping n. key is its path with a dot,
// empty at the top.
func (f *file) section(v reflect.Value, n *yaml.Node, key string) {
	if n = aliasTarget(n); isAbsent(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		_, names := fieldsOf(v)
		f.addError(n, "%smust hold keys and values%s", sectionName(key), sectionHint(key, n, names))
		return
	}
	fields, names := fieldsOf(v)
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at, known := fields[name.Value]
		switch first := seen[name.Value]; {
		case name.Kind != yaml.ScalarNode || !known:
			f.addError(name, "unknown key %q%s", key+name.Value, keyHint(key, name.Value, value, names))
			continue
		case first > 0:
			f.addError(name, "%q is there twice, first on line %d", key+name.Value, first)
			continue
		}
		seen[name.Value] = name.Line
		if _, embedded := v.Type().Field(at).Tag.Lookup("embed"); embedded {
			f.section(v.Field(at), value, key+name.Value+".")
		} else {
			f.fillValue(v.Field(at), value, key+name.Value)
		}
	}
}

// fieldsOf returns the fields of a section by their names in the file, and the names.
func fieldsOf(v reflect.Value) (fields map[string]int, names []string) {
	fields = make(map[string]int)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); name != "" {
			fields[name], names = i, append(names, name)
		}
	}
	return fields, names
}

// hasKeys reports whether v is a struct with fields that a file can name.
func hasKeys(v reflect.Value) bool {
	if v.Kind() != reflect.Struct {
		return false
	}
	_, names := fieldsOf(v)
	return len(names) > 0
}

// maxValues bounds how many values a file may hold, aliases written out.
const maxValues = 1 << 20

// fillValue fills v, which may be a list or a section in one, from n.
func (f *file) fillValue(v reflect.Value, n *yaml.Node, key string) {
	if n = aliasTarget(n); isAbsent(n) && !isInShed(key) {
		return
	}
	if f.values++; f.values > maxValues {
		if f.values == maxValues+1 {
			f.addError(n, "%s: the file holds more than %d values", key, maxValues)
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	_, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case (n.Kind == yaml.MappingNode || !isText) && hasKeys(v):
		f.section(v, n, key+".")
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		f.fillList(v, n, key)
	default:
		f.fillLeaf(v, n, key)
	}
}

// fillList fills the slice v from n, which may be a single value too.
func (f *file) fillList(v reflect.Value, n *yaml.Node, key string) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	all := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if isAbsent(aliasTarget(item)) {
			f.addError(item, "%s[%d] is empty", key, i)
			continue
		}
		f.fillValue(all.Index(i), item, fmt.Sprintf("%s[%d]", key, i))
	}
	v.Set(all)
}

// sectionName names a section in a message.
func sectionName(key string) string {
	if key == "" {
		return "the file "
	}
	return key[:len(key)-1] + " "
}

// fillLeaf fills the setting v from n.
func (f *file) fillLeaf(v reflect.Value, n *yaml.Node, key string) {
	list, isList := v.Addr().Interface().(*[]string)
	set := setText
	if isInShed(key) {
		set = setShed
	}
	switch {
	case isInShed(key) && (isAbsent(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0):
		f.addError(n, "%s must have a value: give one, or leave the key out", key)
	case n.Kind == yaml.ScalarNode && isList:
		*list = []string{n.Value}
	case n.Kind == yaml.ScalarNode:
		if err := set(v, n.Value); err != nil {
			f.addError(n, "%s: %v", key, err)
		}
	case n.Kind == yaml.SequenceNode && isList:
		items := []string{}
		for _, item := range n.Content {
			if item = aliasTarget(item); item.Kind != yaml.ScalarNode {
				f.addError(item, "%s: each must be a single value%s", key, leafHint(key))
				return
			}
			items = append(items, item.Value)
		}
		*list = items
	default:
		f.addError(n, "%s must be a single value%s", key, leafHint(key))
	}
}

// aliasTarget returns what an alias stands for. How deep they go is bounded by the
// depth of the settings, how many there are by maxValues.
func aliasTarget(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isAbsent reports whether n is nothing: the key stands there without a value.
func isAbsent(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// WithoutSecrets returns c without the secrets that a URL may hold.
func (c *Config) WithoutSecrets() *Config {
	p := *c
	p.Routes = slices.Clone(c.Routes)
	p.Regions = slices.Clone(c.Regions)
	for i, line := range p.Regions {
		if name, url, ok := strings.Cut(line, "="); ok {
			p.Regions[i] = name + "=" + redact.URL(url)
		} else {
			p.Regions[i] = redacted
		}
	}
	urls := []*string{&p.Store, &p.Events.URL, &p.Analytics.URL, &p.Upstream, &p.Identity.JWT.URL}
	for i := range p.Routes {
		urls = append(urls, &p.Routes[i].Upstream)
	}
	for _, u := range urls {
		*u = redact.URL(*u)
	}
	return &p
}

// Layer makes a configuration of what was given in several places: given (the
// command line and the environment, flags by name) wins over the file, the
// file over the defaults. A list that is given replaces the file's. Variables of
// settings without a flag are read here.
//
// file is the configuration file's path, empty for none. flags holds the
// values of the given flags.
func Layer(file string, flags *Config, isSet func(flag string) bool) (*Config, error) {
	c := Defaults()
	if file != "" {
		if err := c.LoadFile(file); err != nil {
			return nil, err
		}
	}
	if err := readVariables(c); err != nil {
		return nil, err
	}
	from := make(map[string]reflect.Value)
	walkLeaves(reflect.ValueOf(flags).Elem(), "", "", func(s Setting, v reflect.Value) { from[s.Flag] = v })
	walkLeaves(reflect.ValueOf(c).Elem(), "", "", func(s Setting, v reflect.Value) {
		if s.Flag != "" && isSet(s.Flag) {
			v.Set(from[s.Flag])
		}
	})
	return c, nil
}
