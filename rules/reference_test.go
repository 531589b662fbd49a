package rules

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

//go:generate go test . -run ^(TestSchema|TestReference)$ -update

// formOf returns the form of a key's values in a few words. A pattern is a text such as 10m or 5%.
func formOf(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		if name == "defaults" {
			return "[settings](#settings)"
		}
		if name == "limit" || name == "consistency" {
			return name + " or [block](#" + name + "_block)"
		}
		return "[" + name + "](#" + name + ")"
	case s.Enum != nil:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", word))
		}
		return strings.Join(words, ", ")
	case s.Items != nil:
		return "list of " + formOf(s.Items)
	case s.AnyOf != nil:
		var forms []string
		for _, one := range s.AnyOf {
			if form := formOf(one); form != "" {
				forms = append(forms, form)
			}
		}
		return strings.ReplaceAll(strings.Join(forms, " or "), "string or number or boolean", "text")
	case strings.Contains(s.Pattern, "%"):
		return "share"
	case strings.Contains(s.Pattern, "per"):
		return "rate"
	case strings.Contains(strings.ToLower(s.Pattern), "second"):
		return "unit of time"
	case s.Pattern != "":
		return "duration"
	case s.AdditionalProperties != nil && formOf(s.AdditionalProperties) != "":
		return "map of " + formOf(s.AdditionalProperties)
	}
	return s.Type
}

// TestReference: docs/reference/generated/rules.md is made of the schema of rules files.
func TestReference(t *testing.T) {
	const path = "../docs/reference/generated/rules.md"
	root := schema(t)
	var b strings.Builder
	b.WriteString("# Keys of a rules file\n\nMade by `make docs` of the [JSON Schema](../../../cmd/weir/schema/rules.schema.json). [Rules files](../rules.md) explains them.\n")
	write := func(title, text string, s *jsonschema.Schema) {
		fmt.Fprintf(&b, "\n## %s\n\n%s| key | form | meaning |\n|---|---|---|\n", title, text)
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			if _, isSetting := root.Definitions["defaults"].Properties.Get(p.Key); isSetting && (title == "descriptor" || title == "limit_block") {
				continue
			}
			if p.Value.Description == "" {
				t.Errorf("%s of %s has no comment in schema.go", p.Key, title)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Key, strings.ReplaceAll(formOf(p.Value), "|", "\\|"), strings.ReplaceAll(p.Value.Description, "|", "\\|"))
		}
	}
	write("file", "", root)
	write("settings", "They are in the block of a limit, in a descriptor (for all its limits), or in `defaults:` (for the domain). The nearest one applies.\n\n", root.Definitions["defaults"])
	for _, name := range []string{"descriptor", "limit_block", "tiers", "ban", "consistency_block", "sketch"} {
		write(name, "", root.Definitions[name])
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}
