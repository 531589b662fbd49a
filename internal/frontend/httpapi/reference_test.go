package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test . -run ^TestReference$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/http.md")

const referenceHead = `# Paths over HTTP

Every path that a node serves, made by ` + "`make docs`" + ` from the OpenAPI document at ` + "`/openapi.json`" + `. [The HTTP API](../http-api.md) explains what a schema cannot say.

Paths of the API are on the HTTP port; those marked *operators* need the admin token there, and are on the admin port too. Paths that a gateway forwards, and the prefix of forward-auth, are configured.
`

// schemaOf is what the page says of a schema.
type schemaOf struct {
	Ref         string `json:"$ref"`
	Title       string
	Type        any
	Enum        []any
	Description string
	Properties  json.RawMessage
	Items       *schemaOf
	OneOf       []schemaOf
	AnyOf       []schemaOf
}

// word returns the form of a value in a word.
func (s *schemaOf) word() string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	case s.Items != nil:
		return "list of " + s.Items.word()
	case s.Title != "":
		return s.Title
	case s.Enum != nil:
		return strings.Trim(strings.ReplaceAll(fmt.Sprintf("%q", s.Enum), `" "`, `", "`), "[]")
	}
	var words []string
	for _, one := range append(s.OneOf, s.AnyOf...) {
		words = append(words, one.word())
	}
	switch of := s.Type.(type) {
	case string:
		words = append(words, of)
	case []any:
		for _, one := range of {
			words = append(words, fmt.Sprint(one))
		}
	}
	return strings.Join(words, " or ")
}

// content returns the forms of a body.
func content(of map[string]struct{ Schema schemaOf }) string {
	var out []string
	for kind, body := range of {
		word := body.Schema.word()
		if kind != "application/json" {
			word = kind
		}
		out = append(out, word)
	}
	slices.Sort(out)
	return strings.Join(out, " or ")
}

// operation is one method of a path.
type operation struct {
	Tags        []string
	Summary     string
	Description string
	Security    []any
	Parameters  []struct {
		Name, In, Description string
		Schema                schemaOf
	}
	RequestBody struct {
		Content map[string]struct{ Schema schemaOf }
	}
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema schemaOf }
	}
}

// members returns an object's members as they are written, in order.
func members[T any](t *testing.T, raw json.RawMessage, visit func(name string, value T)) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value T
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%v: %v", name, err)
		}
		visit(name.(string), value)
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func (o *operation) write(t *testing.T, b *strings.Builder, method, path string) {
	where := strings.Join(o.Tags, ", ")
	if where == "" && o.Security != nil {
		where = "operators"
	}
	if o.Summary == "" || len(o.Responses) == 0 {
		t.Errorf("%s %s has no summary or no response", method, path)
	}
	fmt.Fprintf(b, "\n### %s %s\n\n", strings.ToUpper(method), path)
	if where != "" {
		fmt.Fprintf(b, "*%s.* ", strings.ToUpper(where[:1])+where[1:])
	}
	b.WriteString(strings.TrimSpace(o.Summary+" "+o.Description) + "\n")
	if body := content(o.RequestBody.Content); body != "" {
		b.WriteString("\nBody: " + body + "\n")
	}
	if len(o.Parameters) > 0 {
		b.WriteString("\n| parameter | form | meaning |\n|---|---|---|\n")
	}
	for _, p := range o.Parameters {
		if p.Description == "" {
			t.Errorf("%s %s: parameter %s has no description", method, path, p.Name)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.Schema.word(), cell(p.Description))
	}
	b.WriteString("\n| status | meaning | body |\n|---|---|---|\n")
	var statuses []string
	for status := range o.Responses {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		r := o.Responses[status]
		fmt.Fprintf(b, "| %s | %s | %s |\n", status, cell(r.Description), content(r.Content))
	}
}

// TestReference: docs/reference/generated/http.md is what openapi.json says.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/generated/http.md"
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      json.RawMessage
		Components struct{ Schemas json.RawMessage }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(referenceHead + "\n## Paths\n")
	members(t, doc.Paths, func(path string, methods json.RawMessage) {
		members(t, methods, func(method string, o operation) { o.write(t, &b, method, path) })
	})
	b.WriteString("\n## Schemas\n")
	members(t, doc.Components.Schemas, func(name string, s schemaOf) {
		fmt.Fprintf(&b, "\n### %s\n\n", name)
		if len(s.Properties) == 0 {
			b.WriteString(strings.TrimSpace(s.word()+". "+s.Description) + "\n")
			return
		}
		b.WriteString("| member | form | meaning |\n|---|---|---|\n")
		members(t, s.Properties, func(member string, of schemaOf) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", member, of.word(), cell(of.Description))
		})
	})
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}
