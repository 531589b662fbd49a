package rules_test

import (
	"path/filepath"
	"slices"
	"strings"
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
	f("a: b: c", `a.yaml:1: not YAML: mapping values are not allowed in this context (indent it as its neighbors are, or quote a text that holds ": ")`)
	f("domain: a\ndescriptors: [\n", "a.yaml:2: not YAML: did not find expected node content")
	f("\tx: y", "a.yaml:1: not YAML: found character that cannot start any token (indent with spaces, not with a tab)")
	f("domain: a\ndescriptors:\n\t- key: k\n", "a.yaml:3: not YAML: found character that cannot start any token (indent with spaces, not with a tab)")
	f("domain: *a", "a.yaml:1: not YAML: unknown anchor 'a' referenced")
	f("domain: a\n--- [\n", "a.yaml:2: not YAML: did not find expected node content")
}

// What stands behind a second "---" limits nobody, which nobody would notice.
func TestSecondDocument(t *testing.T) {
	const limit = "\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n"
	for _, text := range []string{
		"domain: a" + limit + "---\ndomain: b" + limit,
		"domain: a" + limit + "---\n",
		"---\n---\ndomain: b" + limit,
	} {
		_, err := rules.Parse("r.yaml", []byte(text), rules.Options{})
		if err == nil || !strings.Contains(err.Error(), "second document") {
			t.Errorf("%q: got %v, want an error about its second document", text, err)
		}
	}
	for _, text := range []string{
		"---\ndomain: a" + limit,
		"domain: a" + limit + "...\n",
		"# rules\n---\ndomain: a" + limit + "# end\n",
	} {
		if _, err := rules.Parse("r.yaml", []byte(text), rules.Options{}); err != nil {
			t.Errorf("%q: got %v, want none: it is one document", text, err)
		}
	}
}

// A file whose domain is missing, or taken, is read on: whoever mends that should
// not find the next mistake only then.
func TestFaultsBesideTheDomain(t *testing.T) {
	dir := t.TempDir()
	first, second, third := filepath.Join(dir, "1.yaml"), filepath.Join(dir, "2.yaml"), filepath.Join(dir, "3.yaml")
	const rest = "\ndescriptors:\n  - {key: k, limit: 1/second, algorithm: tokenbucket}\n"
	write(t, first, "domain: a")
	write(t, second, "domain: a"+rest)
	write(t, third, "domian: b"+rest)
	set, errs := rules.Check([]string{first, second, third}, rules.Options{})
	var got []string
	for _, e := range errs {
		e.File = filepath.Base(e.File)
		got = append(got, strings.ReplaceAll(e.Error(), dir+string(filepath.Separator), ""))
	}
	want := []string{
		`2.yaml:1:9: domain "a" is already in 1.yaml (put both in one file, or give each a name of its own)`,
		`2.yaml:3:42: a/k: unknown algorithm "tokenbucket" (did you mean "token_bucket"?)`,
		`3.yaml:1:1: no domain (begin the file with domain: and a name)`,
		`3.yaml:1:1: unknown key "domian" (did you mean "domain"?)`,
		`3.yaml:3:42: k: unknown algorithm "tokenbucket" (did you mean "token_bucket"?)`,
	}
	slices.Sort(got)
	if set != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// One limit and several have keys that are easily mixed up.
func TestLimitAndLimits(t *testing.T) {
	for text, want := range map[string]string{
		"limit: [5/minute, 10/hour]": "r.yaml:3:21: d/k: limit must be one limit, not a list (write limits for several)",
		"limits: 5/minute":           "r.yaml:3:22: d/k: limits must be a list, not a value (write limit for a single one)",
	} {
		_, err := rules.Parse("r.yaml", []byte("domain: d\ndescriptors:\n  - {key: k, "+text+"}\n"), rules.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
