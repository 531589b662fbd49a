package queuetest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/insight/event"
)

//go:generate go test . -run ^TestReference$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/events.md")

// fields returns the names that a struct has in JSON.
func fields(typ reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func asyncAPI(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../../docs/reference/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The document names the fields that there are.
func TestDocumentNamesFields(t *testing.T) {
	schemas := asyncAPI(t)["components"].(map[string]any)["schemas"].(map[string]any)
	for name, v := range map[string]any{"record": event.Record{}, "rollup": event.Rollup{}, "loss": event.Loss{}, "client_info": event.About{}, "responses": event.Answers{}, "latency": event.Latency{}, "response_totals": event.ResponseTotals{}} {
		want := fields(reflect.TypeOf(v))
		var got []string
		for field := range schemas[name].(map[string]any)["properties"].(map[string]any) {
			got = append(got, field)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("docs/reference/asyncapi.yaml, %s:\nhas  %v\nwant %v", name, got, want)
		}
	}
}

// fieldSchema is what the page says of a field.
type fieldSchema struct {
	Ref         string `yaml:"$ref"`
	Type        string
	Format      string
	Const       string
	Enum        []string
	Description string
	Minimum     *int
	Maximum     *int
	MaxLength   *int `yaml:"maxLength"`
	Properties  yaml.Node
}

// form returns the form of a field's values in a few words.
func (f *fieldSchema) form() string {
	switch {
	case f.Ref != "":
		name := strings.TrimPrefix(f.Ref, "#/components/schemas/")
		return "[" + name + "](#" + name + ")"
	case f.Const != "":
		return "`" + f.Const + "`"
	case f.Enum != nil:
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	}
	form := strings.TrimSpace(f.Type + " " + f.Format)
	if f.Maximum != nil {
		form += fmt.Sprintf(", %d to %d", *f.Minimum, *f.Maximum)
	}
	if f.MaxLength != nil {
		form += fmt.Sprintf(", at most %d bytes", *f.MaxLength)
	}
	return form
}

// TestReference: docs/reference/generated/events.md is made of docs/reference/asyncapi.yaml.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/generated/events.md"
	text, err := os.ReadFile("../../../docs/reference/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]fieldSchema }
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Fields of events\n\nMade by `make docs` from the [AsyncAPI document](../asyncapi.yaml). [Events](../events.md) explains them.\n")
	for _, name := range []string{"attributes", "record", "client_info", "responses", "arrival", "rollup", "latency", "response_totals", "durations", "loss"} {
		schema := doc.Components.Schemas[name]
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		if schema.Description != "" {
			b.WriteString(schema.Description + "\n\n")
		}
		fields := schema.Properties.Content
		if len(fields) > 0 {
			b.WriteString("| field | form | meaning |\n|---|---|---|\n")
		}
		for i := 0; i < len(fields); i += 2 {
			var f fieldSchema
			if err := fields[i+1].Decode(&f); err != nil {
				t.Fatal(err)
			}
			if f.Description == "" {
				f.Description = doc.Components.Schemas[strings.TrimPrefix(f.Ref, "#/components/schemas/")].Description
			}
			if f.Description == "" {
				t.Errorf("docs/reference/asyncapi.yaml: %s of %s has no description", fields[i].Value, name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", fields[i].Value, f.form(), f.Description)
		}
	}
	page := strings.ReplaceAll(b.String(), "\n\n\n", "\n\n")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}

// Events are as docs/reference/asyncapi.yaml says.
func TestEventsFitTheSchema(t *testing.T) {
	text, err := json.Marshal(asyncAPI(t))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("asyncapi.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("asyncapi.json#/components/messages/events/payload")
	if err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	for _, e := range events(1, 10) {
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	check := func(list []json.RawMessage) error {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := check(list); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{{`"specversion":"1.0"`, `"specversion":"0.3"`}, {`"count":3`, `"count":"3"`}, {"record.v2", "record.v3"},
		{`"agent":"curl"`, `"agent":"Curl"`}, {`[0,1]`, `[0]`}, {`"users":16`, `"users":17`}} {
		broken := json.RawMessage(strings.Replace(string(list[2]), change[0], change[1], 1))
		if string(broken) == string(list[2]) || check([]json.RawMessage{broken}) == nil {
			t.Errorf("%s in place of %s is not noticed", change[1], change[0])
		}
	}
}
