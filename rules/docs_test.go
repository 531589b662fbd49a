package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/rules"
)

// TestDocs: what docs/reference/rules.md and the tutorial show as a whole file loads.
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
}
