package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/rules"
)

// schemaWords are keys of JSON Schema, and definitions that no file names.
var schemaWords = map[string]bool{"$defs": true, "properties": true, "items": true, "additionalProperties": true,
	"limit_block": true, "consistency_block": true}

// TestDocs: what docs/reference/rules.md and the tutorial show as a whole file loads, and
// every key of the schema is in the former.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	tutorial, err := os.ReadFile("../docs/tutorials/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text)+string(tutorial), "```")
	files := 0
	for i := 1; i < len(parts); i += 2 {
		yaml, ok := strings.CutPrefix(parts[i], "yaml\n")
		switch {
		case !ok:
			continue
		case strings.HasPrefix(yaml, "- key"):
			yaml = "domain: d\ndescriptors:\n" + yaml
		case !strings.Contains(yaml, "domain:"):
			continue
		}
		files++
		if _, err := rules.Parse("docs/reference/rules.md", []byte(yaml), rules.Options{}); err != nil {
			t.Errorf("%s\n%s", err, yaml)
		}
	}
	if files < 5 {
		t.Errorf("%d files in the page", files)
	}
	schema, err := os.ReadFile("../docs/reference/rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(schema)) {
		key, ok := strings.CutSuffix(strings.TrimSpace(line), `": {`)
		if key = strings.TrimPrefix(key, `"`); ok && !schemaWords[key] && !strings.Contains(string(text), key) {
			t.Errorf("docs/reference/rules.md does not tell of %s", key)
		}
	}
}
