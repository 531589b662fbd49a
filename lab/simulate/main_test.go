package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const someRules = `domain: api
descriptors:
  - {key: user, limit: 20/minute}
  - key: path
    value: /login
    descriptors:
      - {key: user, limit: 5/minute}
  - key: path
    value: /search
    descriptors:
      - {key: user, limit: 10/minute}
`

// A small fleet is played whole, a large one by a slice of its users; what cannot be played
// is told with its cure.
func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(someRules), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string // behind the rules, if it begins with a blank
		status int
		want   []string
	}{
		{" --users 50 --rate 200 --for 5s", 0, []string{
			`^50 users, 200 requests/s, 3 nodes, .*rules.yaml\n`,
			`\nPLAYED: the whole fleet, for 5s of virtual time`,
			`\n  each has   user of its user, path /login or /search\n`,
			`\nMEASURED in what was played`,
			`\n  strict +[0-9]+ +[0-9.]+ %  .* 0 +0 .*% +0\.[0-9]+ +0\.000\n`,
			`\n  local .* 100\.0 % +0\.000 +0\.000\n`,
			`\nCOMPUTED for the fleet at 200 requests/s\n`,
			`\n  counters   [0-9.]+ bytes a user`,
		}},
		{"--limit|100/minute by ip|--users|100M|--rate|10M|--nodes|100|--requests|2000|--json", 0, []string{
			`"one_user_of": 300000,`, `"users": 333,`, `"entries": "remote_address of its user",`, `"extrapolated_cores": [0-9]`,
		}},
		{"", 2, []string{`^simulate: give the rules, as in simulate rules.yaml, or a limit`}},
		{" --limit 1/s", 2, []string{`--limit and rules cannot both be`}},
		{"gone.yaml", 2, []string{`gone.yaml: no such file`}},
		{" --nodes 5000", 2, []string{`--nodes 5,000 must be between 1 and 1,000`}},
		{" --users many", 2, []string{`"many" is not a whole number such as 5000, 10k or 2.5M`}},
		{" --entry path", 2, []string{`--entry: "path" is not an entry: write key=value`}},
		{" --entry paht=/x", 2, []string{`--entry paht=/x: no rule of domain api looks at paht: the rules look at user, path`}},
		{" --users 20 --rate 1G", 2, []string{`raise --requests 300,000 or shorten --for 1m0s`}},
		{" --reqests 20", 2, []string{`unknown flag --reqests`}},
	} {
		args := strings.FieldsFunc(c.args, func(r rune) bool { return r == '|' })
		if rest, ok := strings.CutPrefix(c.args, " "); ok {
			args = append([]string{file}, strings.Fields(rest)...)
		}
		var out, errs bytes.Buffer
		status := run(t.Context(), args, &out, &errs)
		text := out.String()
		if c.status != 0 {
			text = errs.String()
		}
		if status != c.status || (errs.Len() > 0) != (c.status != 0) {
			t.Errorf("%q: status %d, %s", args, status, errs.String())
		}
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%q: no %s in\n%s", args, want, text)
			}
		}
	}
}
