package rules_test

import (
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/rules"
)

// What is not YAML is told with its line, also on the first one, and a tab in
// the indentation with its cure.
func TestSyntaxErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a.yaml")
		write(t, file, text)
		_, errs := rules.Check([]string{file}, rules.Options{})
		if len(errs) != 1 {
			t.Errorf("%q: %d errors: %v", text, len(errs), errs)
			return
		}
		errs[0].File = "a.yaml"
		if got := errs[0].Error(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	f("a: b: c", "a.yaml:1: not YAML: mapping values are not allowed in this context")
	f("domain: a\ndescriptors: [\n", "a.yaml:2: not YAML: did not find expected node content")
	f("\tx: y", "a.yaml:1: not YAML: found character that cannot start any token (indent with spaces, not with a tab)")
	f("domain: a\ndescriptors:\n\t- key: k\n", "a.yaml:3: not YAML: found character that cannot start any token (indent with spaces, not with a tab)")
	f("domain: *a", "a.yaml: not YAML: unknown anchor 'a' referenced")
}
