package rules_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

func parse(t testing.TB, text string) *limits.Set {
	t.Helper()
	s, err := rules.Parse("test.yaml", []byte(text), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request makes a request of descriptors such as "a=1 b=2".
func request(domain string, descriptors ...string) *weir.Request {
	r := &weir.Request{Domain: domain}
	for _, text := range descriptors {
		var d weir.Descriptor
		for _, e := range strings.Fields(text) {
			k, v, _ := strings.Cut(e, "=")
			d.Entries = append(d.Entries, weir.Entry{Key: k, Value: v})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// warningsOf returns the warnings of a file that loads.
func warningsOf(t *testing.T, text string) rules.Errors {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, warnings := rules.Check([]string{path}, rules.Options{})
	if set == nil {
		t.Fatal(warnings)
	}
	return warnings
}

func TestSeedRuleLoadsAsPrinted(t *testing.T) {
	text := `domain: auth
descriptors:
  - key: auth_type
    Value: login
    rate_limit:
      unit: minute
      requests_per_unit: 5
`
	s := parse(t, text)
	if warnings := warningsOf(t, text); len(warnings) != 1 || !strings.Contains(warnings[0].Error(), `test.yaml:4:5: warning: auth`) {
		t.Errorf("warnings %v", warnings)
	}
	ops := s.Match(nil, request("auth", "auth_type=login"))
	if len(ops) != 1 {
		t.Fatalf("%d ops", len(ops))
	}
	l := ops[0].Limit
	if l.Count != 5 || l.Period != time.Minute || l.Algorithm.Name() != "sliding_window" || ops[0].Key != "" {
		t.Errorf("%+v key %q", l, ops[0].Key)
	}
	if ops := s.Match(nil, request("auth", "auth_type=logout")); len(ops) != 0 {
		t.Errorf("logout is limited: %v", ops)
	}
}

func TestErrorsAreToldAtOnce(t *testing.T) {
	_, err := rules.Parse("rules/checkout.yaml", []byte(`domain: checkout
descriptors:
  - key: user_id
    rate_limit:
      unit: minuet
      requests_per_unit: 5
  - kye: path
`), rules.Options{})
	var list rules.Errors
	if !errors.As(err, &list) || len(list) != 3 {
		t.Fatalf("%v", err)
	}
	want := `rules/checkout.yaml:5:13: checkout/user_id: unknown unit "minuet" (did you mean "minute"?)`
	if list[0].Error() != want {
		t.Errorf("got  %s\nwant %s", list[0], want)
	}
	if !strings.Contains(list[1].Error()+list[2].Error(), `unknown key "kye" (did you mean "key"?)`) {
		t.Errorf("%v", err)
	}
}

// TestManyFaults: what is told is bounded, and warnings, however many, keep no
// file from loading.
func TestManyFaults(t *testing.T) {
	repeat := func(line string) string {
		var b strings.Builder
		b.WriteString("domain: d\ndescriptors:\n")
		for i := range 1000 {
			fmt.Fprintf(&b, line, i)
		}
		return b.String()
	}
	text := repeat("- {Key: k%d, limit: 1/s}\n")
	if set := parse(t, text); len(set.Rules()) != 1000 {
		t.Fatalf("%d rules", len(set.Rules()))
	}
	if all := warningsOf(t, text); len(all) != 201 || !strings.Contains(all[200].Msg, "800 more warnings") {
		t.Errorf("%d warnings, last %v", len(all), all[len(all)-1])
	}
	_, err := rules.Parse("f.yaml", []byte(repeat("- {kye: k%d, limit: 1/s}\n")), rules.Options{})
	var list rules.Errors
	if !errors.As(err, &list) || len(list) != 201 || !strings.Contains(list[200].Msg, "1800 more faults") {
		t.Errorf("%d faults, %v", len(list), err)
	}
}

func TestCapsOfAllFiles(t *testing.T) {
	text := []byte("domain: d\ndescriptors: [{key: a}, {key: b}, {key: c}]\n")
	f := func(opt rules.Options, want string) {
		t.Helper()
		_, err := rules.Parse("a.yaml", text, opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f(rules.Options{MaxBytes: 10}, "larger than 10 bytes")
	f(rules.Options{MaxDescriptors: 2}, "too many descriptors")
	f(rules.Options{MaxNodes: 3}, "more than 3 values")
	f(rules.Options{MaxDepth: 1}, "nested more than 1 deep")
	if _, err := rules.Parse("a.yaml", text, rules.Options{MaxDescriptors: 3}); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("domain: "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rules.Load([]string{dir}, rules.Options{MaxFiles: 1}); err == nil || !strings.Contains(err.Error(), "more than 1") {
		t.Errorf("two files: %v", err)
	}
}

func TestRuleTellsItsKeys(t *testing.T) {
	set := parse(t, `domain: d
descriptors:
  - key: a
    descriptors:
      - {key: b, value: x, limit: 1/s}
      - key: b
        descriptors: [{key: c, limit: 1/s}, {key: d, limit: 1/s}]
  - {key: e, limit: 1/s}`)
	var got []string
	for _, r := range set.Rules() {
		got = append(got, strings.Join(r.Keys, "/"))
	}
	if want := "a a/b a/b a/b/c a/b/d e"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
