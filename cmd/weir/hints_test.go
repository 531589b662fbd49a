package main_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const hintRules = `domain: api
descriptors:
  - {key: login, limit: 3/minute}
  - {key: slots, limit: 2, algorithm: concurrency, ttl: 90s}
  - {key: soft, limit: 60/minute, mode: soft, exceed: 10%}
  - {key: leased, limit: 10/minute, consistency: leased}
  - {key: two, limits: [5/minute, {name: hourly, limit: 20/hour}]}
  - {key: a, limit: 1/s}
  - {key: b, limit: 1/s}
  - {key: c, limit: 1/s}
`

// A command names what there is where a word is unknown, its own flags in place of the
// fields of the API, and limits as the rules say them.
func TestCommandsSayWhatToWrite(t *testing.T) {
	file := servertest.File(t, "rules.yaml", hintRules)
	n := serve(t, "--rules", file)
	at := map[string][]string{"take": {"--http", n.http}, "key": {"--admin", n.admin}, "promote": {"--admin", n.admin, "--to", "shadow", "--reason", "x"}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"promote", "api/zzz"}, `there is no rule or limit "zzz" in the domain "api"; there are "login", "slots", "soft", "leased", "two", "two per minute", "hourly", "a" and 2 more`},
		{[]string{"promote", "api/logn"}, `did you mean "login"?`},
		{[]string{"key", "ban", "lgin=1", "--for", "1h"}, `no limit counts for these entries: no rule of domain "api" is matched by "lgin" (did you mean "login"?)`},
		{[]string{"key", "reset", "lgin=1"}, `did you mean "login"?`},
		{[]string{"key", "override", "lgin=1", "5/minute"}, `did you mean "login"?`},
		{[]string{"key", "inspect", "lgin=1", "--limit", "x"}, `did you mean "login"?`},
		{[]string{"key", "inspect", "lgin=1"}, "no limit applies: weir explain says why\n"},
		{[]string{"key", "ban", "two=1", "--for", "1h"}, `--limit: is missing; say which limit is meant: "two per minute", "hourly"`},
		{[]string{"key", "ban", "login=1", "--for", "1h"}, "not of the client; a ban over the whole domain is of the client"},
		{[]string{"take", "slots=1"}, "--lease: a concurrency limit applies: name the unit of work"},
		{[]string{"take", "slots=1", "--lease", "x"}, "allowed by slots (2 at once, each for 1m30s at most, concurrency)\n"},
		{[]string{"key", "inspect", "slots=1"}, "enforce slots (2 at once, each for 1m30s at most, concurrency)\n"},
		{[]string{"explain", file, "slots=1"}, "allows     2 at once, each for 1m30s at most, concurrency\n"},
		{[]string{"explain", file, "leased=1"}, "allows     10/minute sliding_window, leased\n"},
		{[]string{"explain", file, "soft=1"}, "limit soft (soft)\n"},
	} {
		out, err := exec.Command(binary, append(c.args, at[c.args[0]]...)...).CombinedOutput()
		if _, refused := errors.AsType[*exec.ExitError](err); err != nil && !refused {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), c.want) {
			t.Errorf("weir %s: no %q in:\n%s", strings.Join(c.args, " "), c.want, out)
		}
	}
}
