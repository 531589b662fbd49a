package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/shed"
)

const (
	// configSchemaFile is what weir schema prints, and a release publishes.
	configSchemaFile = "../../cmd/weir/schema/config.schema.json"
	configSchemaID   = "https://github.com/weirlimit/weir/releases/latest/download/config.schema.json"
)

// object is a part of a JSON Schema.
type object = map[string]any

// TestConfigSchema keeps configSchemaFile in step with Config. The flag -update, which
// config_test.go defines, writes it anew.
func TestConfigSchema(t *testing.T) {
	s := sectionSchema(reflect.TypeFor[Config](), "")
	s["$schema"], s["$id"], s["title"] = "https://json-schema.org/draft/2020-12/schema", configSchemaID, "Weir configuration"
	want, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(configSchemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(configSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go test ./internal/config -run ConfigSchema -update", configSchemaFile)
	}
}

// sectionSchema is the schema of a struct of the configuration. A key without a value is as
// if it were not there.
func sectionSchema(of reflect.Type, key string) object {
	properties := object{}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		s := valueSchema(f.Type, f.Tag, key+name)
		if help := f.Tag.Get("help"); help != "" {
			s["description"] = strings.ReplaceAll(help, "${enum}", strings.ReplaceAll(f.Tag.Get("enum"), ",", ", "))
		}
		if text := f.Tag.Get("default"); text != "" {
			v := reflect.New(f.Type).Elem()
			if err := setText(v, text); err != nil {
				panic(err)
			}
			s["default"] = text
			if v.Kind() == reflect.Int64 && s["anyOf"] != nil && v.Type() == reflect.TypeFor[int64]() {
				s["default"] = v.Int()
			}
		}
		properties[name] = s
	}
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

var (
	scalarTypes = []string{"string", "number", "boolean", "null"}
	duration    = `^([+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0)$`
	// ruleSpan is a duration as rules and load shedding write it: 10m, 1h30m, 7d, 2 weeks, minute.
	ruleSpan  = `([0-9]+ *(us|µs|ms|s|secs?|m|mins?|h|hr|d|w|y|` + unitName + `) *)+|s|secs?|m|mins?|h|hr|d|w|y|` + unitName
	unitName  = `(second|minute|hour|day|week|month|year)s?`
	byteCount = `^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE]\+?[0-9]{1,2})?\s*([kKmMgG][iI]?[bB]|[bB])?\s*$`
)

// valueSchema is the schema of one value, as the file reads it: a number or a word may be
// quoted, and one value stands for a list of it.
func valueSchema(of reflect.Type, tag reflect.StructTag, key string) object {
	switch of {
	case reflect.TypeFor[time.Duration]():
		return object{"anyOf": []object{{"type": "string", "pattern": duration}, {"enum": []any{0, nil}}}}
	case reflect.TypeFor[Bytes]():
		return object{"anyOf": []object{{"type": "string", "pattern": byteCount}, {"type": "number", "minimum": 0}, {"type": "null"}}}
	case reflect.TypeFor[Priority]():
		return object{"anyOf": []object{{"enum": []any{"", "critical", "default", "sheddable", "background", nil}},
			{"type": "integer", "minimum": 0, "maximum": maxPriority}, {"type": "string", "pattern": `^[0-9]{1,3}$|^1000$`}}}
	case reflect.TypeFor[identity.EntryFrom]():
		return object{"anyOf": []object{{"type": scalarTypes[:3]}, notNull(sectionSchema(of, key+"."))}}
	case reflect.TypeFor[*shed.Options]():
		return shedSchema(of.Elem())
	}
	switch of.Kind() {
	case reflect.Bool:
		return object{"anyOf": []object{{"type": []string{"boolean", "null"}}, {"enum": []string{"1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False"}}, {"enum": []int{0, 1}}}}
	case reflect.Int64:
		n := object{"type": "integer"}
		if b := boundsOf(tag); b.or == "" {
			for word, text := range map[string]string{"minimum": b.least, "maximum": b.most} {
				if i, err := strconv.ParseInt(text, 10, 64); err == nil && (&Config{}).hasEffect(key) {
					n[word] = i
				}
			}
		}
		return object{"anyOf": []object{n, {"type": "null"}, {"type": "string", "pattern": `^[+-]?[0-9]+$`}}}
	case reflect.Slice:
		item := object{"type": scalarTypes}
		if of.Elem().Kind() == reflect.Struct {
			item = valueSchema(of.Elem(), "", key)
			if item["type"] != nil {
				item = notNull(item)
			}
			return object{"anyOf": []object{{"type": "array", "items": item}, item, {"type": "null"}}}
		}
		return object{"anyOf": []object{{"type": "array", "items": item}, {"type": scalarTypes}}}
	case reflect.Struct:
		return sectionSchema(of, key+".")
	}
	if words := tag.Get("enum"); words != "" {
		return object{"enum": append([]any{nil}, toAny(strings.Split(words, ","))...)}
	}
	return object{"type": scalarTypes}
}

// notNull makes an item of a list of a section: an empty one is none.
func notNull(section object) object {
	section["type"] = "object"
	return section
}

func toAny(words []string) (all []any) {
	for _, w := range words {
		all = append(all, w)
	}
	return all
}

// shedSchema is the schema of the section shed, whose settings are written as in rules files.
func shedSchema(of reflect.Type) object {
	properties := object{}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		var s object
		switch v := reflect.New(f.Type).Interface().(type) {
		case *shed.Mode:
			s = object{"enum": []string{"enforce", "shadow", "off"}}
		case *bool:
			s = object{"anyOf": []object{{"type": "boolean"}, {"enum": []string{"true", "false"}}}}
		case *int64:
			s = object{"anyOf": []object{{"type": "integer", "minimum": 1}, {"type": "string", "pattern": `^[0-9][0-9_]*$`}}}
		case *[]string:
			s = object{"anyOf": []object{{"type": "array", "minItems": 1, "items": object{"type": scalarTypes}}, {"type": scalarTypes[:3]}}}
		case *shed.Rate:
			s = object{"type": "string", "pattern": `^\s*[1-9][0-9_]*\s*(/|per )\s*(` + ruleSpan + `)\s*$`}
		case *shed.Share:
			s = object{"type": "string", "pattern": `^\s*[0-9]{1,3}\s*%\s*$`}
		case *time.Duration:
			s = object{"type": "string", "pattern": `^\s*(` + ruleSpan + `)\s*$`}
		case *string:
			s = object{"type": scalarTypes[:3]}
		default:
			if _, isText := v.(encoding.TextUnmarshaler); isText {
				panic(fmt.Sprintf("no schema of %T", v))
			}
			s = shedSchema(f.Type)
		}
		properties[name] = s
	}
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

// compiled returns the schema of the configuration.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(configSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fitsSchema returns why a YAML document does not fit the schema.
func fitsSchema(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// The configurations of the examples, of the packages and of the defaults fit the schema,
// every setting occurs in it, and no key that is unknown.
func TestConfigSchemaFitsExamples(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("../../examples/gateway/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range append(files, "../../deploy/package/weir.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !IsConfig(file) {
			continue
		}
		n++
		if err := fitsSchema(t, s, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if n < 4 {
		t.Errorf("%d configurations", n)
	}
	all := completeConfig(t)
	if err := fitsSchema(t, s, all); err != nil {
		t.Error(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(all, &doc); err != nil {
		t.Fatal(err)
	}
	for _, setting := range Settings() {
		at := doc.Content[0]
		for key := range strings.SplitSeq(setting.Key, ".") {
			if at != nil {
				at = valueOfKey(at, key)
			}
		}
		if at == nil {
			t.Errorf("%s does not occur", setting.Key)
		}
	}
}

// completeConfig returns a configuration with every key.
func completeConfig(t *testing.T) []byte {
	t.Helper()
	c := Defaults()
	err := c.LoadFile(servertest.File(t, "weir.yaml", `
routes:
  - path: /login
    methods: [POST]
    descriptors: [{entries: [remote_address, {key: k, from: "header:X", fold: true}], unless: user, cost: 2}]
    priority: critical
    limit: [5/minute]
    timeout: 10s
    max_body: 4KiB
shed:
  name: n
  domain: d
  user: [user]
  off: true
  user_rate: {limit: 1/second, burst: 5, mode: shadow}
  user_concurrency: {limit: 20, ttl: 30s, mode: off}
  fleet_share: {limit: 10/second, headroom: 20%, mode: enforce}
  in_flight: {limit: 10, shares: {critical: 100%, default: 90%, sheddable: 70%, background: 50%}, retry_after: 2s, mode: enforce}
`))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// mutants are what the value of a key is replaced by. A number within quotes, which the
// loader takes for one, the schema does not compare with bounds.
var mutants = []string{"x", "5", "-1", "0", "1.5", "true", "off", "{x: y}", "[a, b]", "[]", "[{x: y}]", "[[a]]", "~", "10s", "-3s", "64KiB", "10%", "1/second", "1000000000000", `""`}

// What the schema refuses is what the loader refuses, for every key and every wrong value:
// each value of a complete configuration is replaced, and each section gets an unknown key.
func TestConfigSchemaAgreesWithTheLoader(t *testing.T) {
	s, file := compiled(t), servertest.File(t, "weir.yaml", "")
	tried := map[bool]int{}
	try := func(doc *yaml.Node, what string) {
		text, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		bySchema, byLoader := fitsSchema(t, s, text), loads(t, file, text)
		if (bySchema == nil) != (byLoader == nil) {
			t.Errorf("%s\nschema: %v\nloader: %v", what, bySchema, byLoader)
		}
		tried[byLoader == nil]++
	}
	// within makes a document of a value at path.
	var mutate func(n *yaml.Node, path string, within func(*yaml.Node) *yaml.Node)
	mutate = func(n *yaml.Node, path string, within func(*yaml.Node) *yaml.Node) {
		for _, m := range mutants {
			var other yaml.Node
			if err := yaml.Unmarshal([]byte(m), &other); err != nil {
				t.Fatal(err)
			}
			try(within(other.Content[0]), path+": "+m)
		}
		parent := *n
		switch n.Kind {
		case yaml.MappingNode:
			with := func(key string, value *yaml.Node) *yaml.Node {
				p := parent
				p.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, value}
				return within(&p)
			}
			try(with("unknown_key", &yaml.Node{Kind: yaml.ScalarNode, Value: "1"}), path+".unknown_key")
			for i := 1; i < len(n.Content); i += 2 {
				key := n.Content[i-1].Value
				mutate(n.Content[i], path+"."+key, func(value *yaml.Node) *yaml.Node { return with(key, value) })
			}
		case yaml.SequenceNode:
			for i, item := range n.Content {
				mutate(item, fmt.Sprintf("%s[%d]", path, i), func(value *yaml.Node) *yaml.Node {
					p := parent
					p.Content = []*yaml.Node{value}
					return within(&p)
				})
			}
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(completeConfig(t), &doc); err != nil {
		t.Fatal(err)
	}
	mutate(doc.Content[0], "", func(value *yaml.Node) *yaml.Node { return value })
	if tried[true] < 500 || tried[false] < 500 {
		t.Errorf("accepted and refused: %v", tried)
	}
}

// loads returns why the product refuses the form of a configuration: its keys, what kind of
// value each has, and the words and numbers that it may be.
func loads(t *testing.T, file string, text []byte) error {
	t.Helper()
	servertest.Write(t, file, string(text))
	c := Defaults()
	if err := c.LoadFile(file); err != nil {
		return err
	}
	isNumber, enums := map[string]bool{}, []error(nil)
	walkTags(reflect.ValueOf(c).Elem(), "", func(key string, tag reflect.StructTag, v reflect.Value) {
		isNumber[key] = v.Type() == reflect.TypeFor[int64]() && boundsOf(tag).or == "" && (&Config{}).hasEffect(key)
		if words := tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), v.String()) {
			err := c.Check()
			if err == nil {
				t.Errorf("%s: %q is none of %s, and the product starts with it", key, v, words)
			}
			enums = append(enums, err)
		}
	})
	return errors.Join(append(enums, checkBounds(c, "", func(key string) bool { return isNumber[key] })...)...)
}

// walkTags calls visit for every setting of a section.
func walkTags(v reflect.Value, key string, visit func(string, reflect.StructTag, reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if _, section := f.Tag.Lookup("embed"); section {
			walkTags(v.Field(i), key+name+".", visit)
			continue
		}
		visit(key+name, f.Tag, v.Field(i))
	}
}
