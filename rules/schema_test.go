package rules

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/algorithm"
)

// schemaFile is what weir schema prints, and a release publishes.
const schemaFile = "../cmd/weir/schema/rules.schema.json"

// TestSchema keeps schemaFile in step with the types of schema.go. The flag -update, which
// golden_test.go defines, writes it anew.
func TestSchema(t *testing.T) {
	want, err := json.MarshalIndent(schema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go test ./rules -update", schemaFile)
	}
}

// schema makes the JSON Schema of a rules file.
func schema(t *testing.T) *jsonschema.Schema {
	comments := fieldComments(t)
	r := &jsonschema.Reflector{
		FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, ExpandedStruct: true,
		Namer: func(t reflect.Type) string { return strings.TrimSuffix(t.Name(), "Spec") },
		LookupComment: func(t reflect.Type, field string) string {
			return comments[t.Name()+"."+field]
		},
	}
	// The type that is asked for is written out, not referred to.
	reflected := func(v any) *jsonschema.Schema {
		r.Mapper = func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeOf(v) {
				return nil
			}
			return mapped(t)
		}
		return r.Reflect(v)
	}
	s := reflected(fileSpec{})
	s.ID = "https://github.com/weirlimit/weir/releases/latest/download/rules.schema.json"
	s.Title = "Weir rules"
	s.Required = []string{"domain"}
	for _, v := range []any{descriptorSpec{}, limitSpec{}, tiersSpec{}, sketchSpec{}, banSpec{}, consistencySpec{}} {
		name := strings.TrimSuffix(reflect.TypeOf(v).Name(), "Spec")
		if s.Definitions[name] == nil {
			s.Definitions[name] = reflected(v)
			s.Definitions[name].Version, s.Definitions[name].ID, s.Definitions[name].Definitions = "", "", nil
		}
		enums(s.Definitions[name], reflect.TypeOf(v))
	}
	enums(s.Definitions["defaults"], reflect.TypeFor[defaultsSpec]())
	s.Definitions["descriptor"].Required = []string{"key"}
	s.Definitions["tiers"].Required = []string{"by", "limits"}
	s.Definitions["ban"].Required = []string{"after", "for"}
	// What is written as a block or in short.
	s.Definitions["limit_block"] = s.Definitions["limit"]
	s.Definitions["limit"] = anyOf("A limit, such as 100/minute, or a block.", text(ratePattern), integer(), ref("limit_block"))
	s.Definitions["consistency_block"] = s.Definitions["consistency"]
	mode, _ := s.Definitions["consistency"].Properties.Get("mode")
	s.Definitions["consistency"] = anyOf("How nodes that share a store count together: a mode, or a block.",
		&jsonschema.Schema{Type: "string", Enum: mode.Enum}, ref("consistency_block"))
	return s
}

const (
	ratePattern    = `^(unlimited|[0-9][0-9_]* *(/|per) *[^ ].*|[0-9][0-9_]*)$`
	spanPattern    = `^.*[A-Za-zµ]$|^0$`
	percentPattern = `^[0-9]+ *%$`
)

// mapped gives the schema of the types that read themselves.
func mapped(t reflect.Type) *jsonschema.Schema {
	scalar := func() *jsonschema.Schema {
		return anyOf("", text(""), &jsonschema.Schema{Type: "number"}, &jsonschema.Schema{Type: "boolean"})
	}
	switch t {
	case reflect.TypeFor[rateText]():
		return anyOf("", text(ratePattern), integer())
	case reflect.TypeFor[span](), reflect.TypeFor[autoSpan](), reflect.TypeFor[unitWord]():
		return anyOf("", text(spanPattern), &jsonschema.Schema{Const: 0})
	case reflect.TypeFor[percent]():
		return text(percentPattern)
	case reflect.TypeFor[size]():
		return anyOf("", text(`^[0-9]+ *([kKmMgG]i?)?[bB]$`), integer())
	case reflect.TypeFor[share]():
		return anyOf("", text(percentPattern), integer())
	case reflect.TypeFor[words]():
		return anyOf("", scalar(), list1(scalar()))
	case reflect.TypeFor[names]():
		name := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"name"},
			AdditionalProperties: jsonschema.FalseSchema}
		name.Properties.Set("name", text(""))
		return list1(anyOf("", text(""), name))
	case reflect.TypeFor[limitList]():
		return anyOf("", ref("limit"), list1(ref("limit")))
	case reflect.TypeFor[limitSpec](), reflect.TypeFor[*limitSpec]():
		return ref("limit")
	case reflect.TypeFor[consistencySpec](), reflect.TypeFor[*consistencySpec]():
		return ref("consistency")
	case reflect.TypeFor[poolSpec](), reflect.TypeFor[*poolSpec]():
		return anyOf("", text(""), ref("limit"))
	case reflect.TypeFor[metadataSpec](), reflect.TypeFor[*metadataSpec]():
		return &jsonschema.Schema{Type: "object"}
	}
	if t.Kind() == reflect.Slice && strings.HasPrefix(t.Elem().Name(), "keyed[") {
		value, _ := t.Elem().FieldByName("value")
		return &jsonschema.Schema{Type: "object", AdditionalProperties: mapped(value.Type)}
	}
	return nil
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }
func integer() *jsonschema.Schema        { return &jsonschema.Schema{Type: "integer", Minimum: "0"} }
func text(pattern string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern}
}
func list1(items *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: items}
}
func anyOf(description string, of ...*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Description: description, AnyOf: of}
}

// enums adds the words of enumerations, and what else tags do not say.
func enums(s *jsonschema.Schema, t reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		p, ok := s.Properties.Get(f.Tag.Get("yaml"))
		if !ok {
			continue
		}
		if words := f.Tag.Get("enum"); words != "" {
			for _, w := range strings.Split(words, ",") {
				p.Enum = append(p.Enum, w)
			}
			if f.Tag.Get("yaml") == "deny_cache" {
				// A bare on or off is a boolean to readers of YAML 1.1.
				p.Type, p.Enum = "", append(p.Enum, true, false)
			}
		}
		switch f.Tag.Get("yaml") {
		case "algorithm":
			for _, a := range algorithm.All {
				p.Enum = append(p.Enum, a.Name())
			}
		case "value":
			p.Type, p.AnyOf = "", []*jsonschema.Schema{text(""), {Type: "number"}, {Type: "boolean"}}
		}
		if p.Type == "integer" {
			p.Minimum = "0"
		}
	}
}

// fieldComments reads the comments of schema.go, by "type.field"; the field is
// empty for that of the type.
func fieldComments(t *testing.T) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "schema.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := ts.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					for _, name := range field.Names {
						all[ts.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
					}
				}
			}
		}
	}
	return all
}

// TestSchemaFitsTheDecoder: what loads fits the schema, and every key of the
// grammar has a description.
func TestSchemaFitsTheDecoder(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	v := validator{defs: s["$defs"].(map[string]any)}
	files, _ := filepath.Glob("../examples/*.yaml")
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if fault := v.yaml(t, s, source); fault != "" {
			t.Errorf("%s: %s", file, fault)
		}
	}
	golden, err := os.ReadFile("../testdata/rules/superset.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(golden), "-- s.yaml --\n")
	rest, _, _ = strings.Cut(rest, "-- compiled --")
	if fault := v.yaml(t, s, []byte(rest)); fault != "" {
		t.Errorf("superset.txt: %s", fault)
	}
	for _, bad := range []string{
		"domian: x", "domain: x\ndescriptors: [{kye: k}]", "domain: x\ndescriptors: [{key: k, limit: fast}]",
		"domain: x\ndescriptors: [{key: k, limit: 1/s, mode: sfot}]", "domain: x\ndescriptors: [{key: k, limit: 1/s, exceed: 10}]",
		"domain: x\ndescriptors: [{key: k, limits: [{limt: 1/s}]}]", "domain: x\ndescriptors: [{key: k, tiers: {limits: {}}}]",
		"domain: x\ndescriptors: [{key: k, algorithm: leaky}]", "domain: x\ndescriptors: {}", "descriptors: []",
	} {
		if v.yaml(t, s, []byte(bad)) == "" {
			t.Errorf("fits the schema: %s", bad)
		}
	}
	v.described(t, "", s)
	for name, d := range v.defs {
		v.described(t, name, d.(map[string]any))
	}
}

// validator checks as much of JSON Schema as the schema uses.
type validator struct{ defs map[string]any }

func (v validator) described(t *testing.T, name string, s map[string]any) {
	props, _ := s["properties"].(map[string]any)
	for key, p := range props {
		if d, _ := p.(map[string]any)["description"].(string); d == "" {
			t.Errorf("%s.%s has no description", name, key)
		}
	}
}

func (v validator) yaml(t *testing.T, s map[string]any, source []byte) string {
	var value any
	if err := yaml.Unmarshal(source, &value); err != nil {
		t.Fatal(err)
	}
	// Through JSON, so that numbers are as a schema knows them.
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return v.check(s, value, "")
}

// check returns what is wrong with value, or nothing.
func (v validator) check(s map[string]any, value any, at string) string {
	if r, ok := s["$ref"].(string); ok {
		s = v.defs[strings.TrimPrefix(r, "#/$defs/")].(map[string]any)
		return v.check(s, value, at)
	}
	if c, ok := s["const"]; ok && c != value {
		return fmt.Sprintf("%s: %v is not %v", at, value, c)
	}
	if e, ok := s["enum"].([]any); ok && !slices.Contains(e, value) {
		return fmt.Sprintf("%s: %v is none of %v", at, value, e)
	}
	if fault := v.kind(s, value, at); fault != "" {
		return fault
	}
	if options, ok := s["anyOf"].([]any); ok {
		faults := ""
		for _, a := range options {
			fault := v.check(a.(map[string]any), value, at)
			if fault == "" {
				return ""
			}
			faults += "; " + fault
		}
		return at + ": fits nothing" + faults
	}
	return ""
}

func (v validator) kind(s map[string]any, value any, at string) string {
	bad := func() string { return fmt.Sprintf("%s: %v is no %v", at, value, s["type"]) }
	switch s["type"] {
	case "string":
		text, ok := value.(string)
		if p, has := s["pattern"].(string); !ok || has && !regexp.MustCompile(p).MatchString(text) {
			return bad()
		}
	case "integer":
		if n, ok := value.(float64); !ok || n != float64(int64(n)) || n < 0 {
			return bad()
		}
	case "number":
		if _, ok := value.(float64); !ok {
			return bad()
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return bad()
		}
	case "array":
		items, ok := value.([]any)
		if !ok {
			return bad()
		}
		for i, item := range items {
			if fault := v.check(s["items"].(map[string]any), item, fmt.Sprintf("%s/%d", at, i)); fault != "" {
				return fault
			}
		}
	case "object":
		m, ok := value.(map[string]any)
		if !ok {
			return bad()
		}
		return v.object(s, m, at)
	}
	return ""
}

func (v validator) object(s map[string]any, m map[string]any, at string) string {
	required, _ := s["required"].([]any)
	for _, key := range required {
		if _, ok := m[key.(string)]; !ok {
			return fmt.Sprintf("%s: no %s", at, key)
		}
	}
	props, _ := s["properties"].(map[string]any)
	for key, item := range m {
		p, ok := props[key].(map[string]any)
		if !ok {
			if p, ok = s["additionalProperties"].(map[string]any); !ok {
				if s["additionalProperties"] == false {
					return fmt.Sprintf("%s: unknown key %s", at, key)
				}
				continue
			}
		}
		if fault := v.check(p, item, at+"/"+key); fault != "" {
			return fault
		}
	}
	return ""
}
