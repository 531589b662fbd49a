package queuetest

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/insight/event"
)

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

// The documents name the fields that there are.
func TestDocumentsNameFields(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
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
		for _, field := range want {
			if !strings.Contains(string(page), "`"+field+"`") {
				t.Errorf("docs/reference/events.md does not name %s of a %s", field, name)
			}
		}
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
