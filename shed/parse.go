package shed

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/internal/spell"
	"go.yaml.in/yaml/v3"
)

// maxYAML bounds what Parse reads, in bytes.
const maxYAML = 64 << 10

// Parse reads options from YAML. Unknown and repeated keys and values of the
// wrong form are errors; all are reported, each after name and its line. What
// makes no sense together is reported by [New].
func Parse(data []byte, name string) (Options, error) {
	var o Options
	if len(data) > maxYAML {
		return o, fmt.Errorf("%s is larger than %d bytes: these options take a few lines", name, maxYAML)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&o)
	switch {
	case errors.Is(err, io.EOF):
		return o, nil // nothing but comments
	case err == nil && !errors.Is(dec.Decode(new(yaml.Node)), io.EOF):
		return Options{}, fmt.Errorf("%s holds more than one document: keep the first", name)
	case err == nil:
		return o, nil
	}
	var faults *yaml.TypeError
	if !errors.As(err, &faults) {
		return Options{}, fmt.Errorf("%s: not YAML: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	errs := make([]error, len(faults.Errors))
	for i, f := range faults.Errors {
		errs[i] = fmt.Errorf("%s: %s", name, f)
	}
	return Options{}, errors.Join(errs...)
}

// UnmarshalYAML implements yaml.Unmarshaler: strictly, whatever the decoder
// around it does.
func (o *Options) UnmarshalYAML(n *yaml.Node) error {
	var r reader
	var got Options
	r.section(reflect.ValueOf(&got).Elem(), n, "")
	if r.faults != nil {
		return &yaml.TypeError{Errors: r.faults}
	}
	*o = got
	return nil
}

// reader fills options from nodes and notes every fault.
type reader struct{ faults []string }

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf("line %d: ", n.Line)+fmt.Sprintf(format, args...))
}

// section fills the struct v. path leads to it, with a dot at its end.
func (r *reader) section(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.bad(n, "%q must hold keys and values", strings.TrimSuffix(path, "."))
		return
	}
	names, fields := []string{}, map[string]int{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		names, fields[name] = append(names, name), i
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at, known := fields[key.Value]
		switch line, again := seen[key.Value]; {
		case !known || key.Kind != yaml.ScalarNode:
			r.bad(key, "unknown key %q: %s", clip(path+key.Value), spell.Cure(key.Value, names))
			continue
		case again:
			r.bad(key, "%q is in line %d already: keep one of them", path+key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		r.field(v.Field(at), value, path+key.Value)
	}
}

// field fills one field from n.
func (r *reader) field(v reflect.Value, n *yaml.Node, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	text, isText := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch p := v.Addr().Interface().(type) {
	case *[]string:
		r.list(p, n, path)
		return
	default:
		if v.Kind() == reflect.Struct && !isText {
			r.section(v, n, path+".")
			return
		}
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.bad(n, "%s must have a single value: give one, or leave the key out", path)
		return
	}
	var err error
	switch p := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		err = text.UnmarshalText([]byte(n.Value))
	case *string:
		*p = n.Value
	case *time.Duration:
		*p, err = parsePeriod(n.Value)
	case *bool:
		if *p = n.Value == "true"; !*p && n.Value != "false" {
			err = fmt.Errorf("%q: write true or false", clip(n.Value))
		}
	case *int64:
		var i int64
		if i, err = period.Count(n.Value); err == nil && i < 1 {
			err = fmt.Errorf("%d must be at least 1; to have none leave the key out", i)
		}
		*p = i
	default:
		panic("shed: no reading of " + v.Type().String())
	}
	if err != nil {
		r.bad(n, "%s: %s", path, err)
	}
}

// list fills a list of words; one word stands for a list of it.
func (r *reader) list(to *[]string, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		*to = []string{n.Value}
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.bad(n, "%s must be a list of words: give one, or leave the key out", path)
		return
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			r.bad(item, "%s: each must be a single word", path)
			return
		}
		*to = append(*to, item.Value)
	}
}
