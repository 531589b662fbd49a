package report

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
)

var update = flag.Bool("update", false, "write the schemas into the OpenAPI document")

//go:generate go test . -run ^TestDocumentHasEverySchema$ -update

const openapi = "../../../frontend/httpapi/openapi.json"

// reports are the types of the responses, by path.
var reports = map[string]any{
	"overview": Overview{}, "series": Series{}, "top": Top{}, "rules": RuleList{}, "rule": RuleDetail{}, "rules/{domain}/{rule}": RuleDetail{},
	"rates": Rates{}, "clients": ClientList{}, "client": ClientDetail{}, "clients/{key}": ClientDetail{}, "accuracy": AccuracyList{}, "replay": Replay{},
	"upstream": Upstream{}, "latency": LatencySeries{}, "filters": Words{}, "system": System{},
}

// TestDocumentHasEverySchema: the OpenAPI document has the schema of each response of analytics,
// made of the Go type and its comments. The database suite holds real responses against it.
func TestDocumentHasEverySchema(t *testing.T) {
	text, err := os.ReadFile(openapi)
	if err != nil {
		t.Fatal(err)
	}
	want := schemas(t)
	if *update {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			text = setSchema(t, text, name, want[name])
		}
		if err := os.WriteFile(openapi, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type body struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
	var doc struct {
		Paths      map[string]map[string]struct{ Responses map[string]body }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, schema := range want {
		var w any
		if err := json.Unmarshal(schema, &w); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(doc.Components.Schemas[name], w) {
			t.Errorf("%s: the schema %s is stale: go generate ./internal/insight/analytics/report", openapi, name)
		}
	}
	refers := func(method, path string, report any) {
		ref := doc.Paths[Prefix+path][method].Responses["200"].Content["application/json"].Schema.Ref
		if want := components + nameOfType(reflect.TypeOf(report)); ref != want {
			t.Errorf("%s %s: the schema of the response is %q, want %q", method, path, ref, want)
		}
	}
	for _, q := range questions {
		if reports[q.Path] == nil {
			t.Errorf("%s: the test does not know the type of the response", q.Path)
			continue
		}
		refers("get", q.Path, reports[q.Path])
	}
}

const components = "#/components/schemas/"

// nameOfType returns the name of a type's schema, which is unique in the document.
func nameOfType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[event.Loss]():
		return "SourceLoss"
	case reflect.TypeFor[event.About]():
		return "ClientInfo"
	case reflect.TypeFor[event.Answers]():
		return "Responses"
	case reflect.TypeFor[AnswerTimes]():
		return "ResponseTimes"
	case reflect.TypeFor[accuracy.Alternative]():
		return "Compared"
	case reflect.TypeFor[Words]():
		return "Filters"
	}
	return t.Name()
}

// schemas returns the schemas of the reports and of what they are made of, by name.
func schemas(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	comments := map[string]string{}
	for _, folder := range []string{".", "../query", "../accuracy", "../advice", "../verdict", "../../event", "../../../../limits"} {
		maps.Copy(comments, fieldComments(t, folder))
	}
	r := &jsonschema.Reflector{
		Namer: nameOfType,
		LookupComment: func(of reflect.Type, field string) string {
			return inJSON(of, comments[filepath.Base(of.PkgPath())+"."+of.Name()+"."+field])
		},
		Mapper: func(of reflect.Type) *jsonschema.Schema {
			switch of {
			case reflect.TypeFor[verdict.Class]():
				return words(verdict.Legitimate, verdict.Shared, verdict.Runaway, verdict.Abusive, verdict.Undecided)
			case reflect.TypeFor[verdict.Certainty]():
				return words(verdict.None, verdict.Low, verdict.Medium, verdict.High)
			case reflect.TypeFor[advice.Badge]():
				return words(advice.NeverHit, advice.NeverDecides, advice.TooTight, advice.TooLoose, advice.Flapping, advice.SharedAddress, advice.ShadowReady)
			case reflect.TypeFor[advice.Kind]():
				return words(advice.Relax, advice.Tighten, advice.TokenBucket, advice.RaiseBurst, advice.KeyByUser, advice.Remove, advice.Enforce)
			}
			return nil
		},
	}
	out := map[string]json.RawMessage{}
	for _, report := range reports {
		for name, s := range r.Reflect(report).Definitions {
			text, err := json.MarshalIndent(s, "      ", "  ")
			if err != nil {
				t.Fatal(err)
			}
			schema := strings.ReplaceAll(string(text), "#/$defs/", components)
			if old, ok := out[name]; ok && string(old) != schema {
				t.Errorf("two types have the schema %s: name one of them in nameOfType", name)
			}
			out[name] = []byte(schema)
		}
	}
	return out
}

func words[T any](of ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range of {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// inJSON returns a comment of a field for those who read JSON: the type's other fields are called
// as they are there.
func inJSON(of reflect.Type, comment string) string {
	if of.Kind() != reflect.Struct || comment == "" {
		return comment
	}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		comment = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(comment, "`"+name+"`")
	}
	return strings.NewReplacer("Nil ", "Absent ", " nil ", " absent ").Replace(comment)
}

// fieldComments reads the comments of a package's fields, by package.type.field, and of its types.
func fieldComments(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	out := map[string]string{}
	line := func(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range s.Fields.List {
				for _, field := range f.Names {
					text := line(f.Doc)
					if text == "" {
						text = line(f.Comment)
					}
					out[file.Name.Name+"."+spec.Name.Name+"."+field.Name] = text
				}
			}
			return true
		})
	}
	return out
}

// setSchema puts a schema into the text of the document, in the place of the one of that name or
// after the others.
func setSchema(t *testing.T, text []byte, name string, schema json.RawMessage) []byte {
	t.Helper()
	old := regexp.MustCompile(`(?ms)^      "` + name + `": \{$.*?^      \}`)
	if old.Match(text) {
		return old.ReplaceAllLiteral(text, []byte(`      "`+name+`": `+string(schema)))
	}
	before, after, ok := strings.Cut(string(text), "\n    },\n    \"securitySchemes\": {")
	if !ok {
		t.Fatalf("%s has no end of schemas", openapi)
	}
	return []byte(before + ",\n      \"" + name + "\": " + string(schema) + "\n    },\n    \"securitySchemes\": {" + after)
}
