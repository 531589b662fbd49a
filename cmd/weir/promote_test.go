package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const modeRules = `
domain: api
descriptors:
  - key: client_id
    limit: {name: per_year, limit: 5/year, algorithm: fixed_window, anchor: first_request, mode: shadow}
  - key: path
    limits:
      - {name: slow, limit: 1/hour}
      - {name: fast, limit: 1000/hour}
`

// run runs a subcommand as an operator of n and returns what it says, with its
// exit status.
func (n *testNode) operate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command(binary, append(args, "--admin", n.admin, "--timeout", "20s")...).CombinedOutput()
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	code := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	}
	return string(out), code
}

// promote promotes a rule and returns what it says.
func (n *testNode) promote(t *testing.T, rule, to string, more ...string) string {
	t.Helper()
	out, code := n.operate(t, append([]string{"promote", rule, "--to", to, "--reason", "test"}, more...)...)
	if code != 0 {
		t.Errorf("weir promote %s --to %s: exit status %d\n%s", rule, to, code, out)
	}
	return out
}

// passed spends units of a client one by one and returns how many passed.
func (n *testNode) passed(t *testing.T, client string, units int) int {
	t.Helper()
	yes := 0
	for range units {
		status, text := post(t, n.http+"/v1/check", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"client_id":%q}}]}`, client))
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		if strings.HasPrefix(text, `{"allowed":true`) {
			yes++
		}
	}
	return yes
}

// Two nodes on one real Redis: a rule that is promoted on one is enforced on the
// other, with what was spent before, for the same keys; it survives a reload and a
// restart, and both tell who did it, until when and why.
func TestPromoteOnTwoNodes(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	file := servertest.File(t, "rules.yaml", modeRules)
	args := []string{"--rules", file, "--store", "redis://" + redis.Addr + "?timeout=5s"}
	a, b := serve(t, args...), serve(t, args...)
	if got := a.passed(t, "ann", 6) + b.passed(t, "ann", 6); got != 12 {
		t.Fatalf("%d of 12 pass a shadow", got)
	}
	if out := a.promote(t, "api/client_id", "100%", "--for", "1h"); !strings.Contains(out, "api/client_id, limit per_year: shadow, by the rules -> enforce until ") ||
		!strings.Contains(out, "\n  mode: hard\n") {
		t.Errorf("promote says %s", out)
	}
	for _, n := range []*testNode{a, b} {
		servertest.Await(t, "the limit to be enforced for what was spent before", func() bool { return !n.allows(t, "ann", 1) })
		if !n.allows(t, "bob", 5) || n.allows(t, "bob", 6) {
			t.Error("who has spent nothing has another limit")
		}
	}
	enforced := func(n *testNode) []string {
		var keys []string
		for i := range 60 {
			if key := fmt.Sprint("k", i); !n.allows(t, key, 6) {
				keys = append(keys, key)
			}
		}
		return keys
	}
	var last []string
	for _, to := range []string{"10%", "50%"} {
		b.promote(t, "api/per_year", to)
		want := enforced(b)
		servertest.Await(t, "the other node to refuse the same keys", func() bool { return slices.Equal(enforced(a), want) })
		for _, key := range last {
			if !slices.Contains(want, key) {
				t.Errorf("%s was refused before, and is not at %s", key, to)
			}
		}
		last = want
	}
	if len(last) < 15 || len(last) > 45 {
		t.Errorf("%d of 60 keys are refused at 50%%", len(last))
	}

	// A reload of other rules keeps it, also while the rule is gone.
	for _, text := range []string{strings.Replace(modeRules, "client_id", "other", 1), strings.Replace(modeRules, "5/year", "4/year", 1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*testNode{a, b} {
			servertest.Await(t, "the rules to be loaded", func() bool {
				_, rules := get(t, n.admin+"/v1/rules")
				return strings.Contains(rules, `"rule":"other"`) == strings.Contains(text, "key: other")
			})
		}
	}
	if got := enforced(b); !slices.Equal(got, last) {
		t.Errorf("after a reload %v are refused, before %v", got, last)
	}
	for _, n := range []*testNode{a, b} {
		n.end(t)
	}
	a, b = serve(t, args...), serve(t, args...)
	for _, n := range []*testNode{a, b} {
		if got := enforced(n); !slices.Equal(got, last) {
			t.Errorf("after a restart %v are refused, before %v", got, last)
		}
		for path, want := range map[string]string{
			"/v1/rules": `"changed":{"per_year":"enforced for 50% of keys by an operator; shadow by the rules"}`,
			"/rules":    "enforced for 50% of keys by an operator; shadow by the rules",
			"/metrics":  `weir_overlay_mode_percent{domain="api",limit="per_year",mode="enforce",rule="client_id"} 50`,
		} {
			if _, text := get(t, n.admin+path); !strings.Contains(text, want) {
				t.Errorf("%s does not say %s:\n%s", path, want, text)
			}
		}
		if out, err := exec.Command(binary, "explain", "--admin", n.admin, "client_id=k1").CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "over the rules: limit per_year of api/client_id: enforced for 50% of keys by an operator") {
			t.Errorf("explain: %v\n%s", err, out)
		}
		out, code := n.operate(t, "audit")
		if code != 0 || !strings.Contains(out, "3  ") || !strings.Contains(out, "from   10%\n    to     50%\n    by     127.0.0.1 on ") || !strings.Contains(out, "reason test") {
			t.Errorf("audit: %d\n%s", code, out)
		}
	}

	// Taken back on one: a shadow again on both.
	a.promote(t, "api/client_id", "none")
	servertest.Await(t, "the other node to refuse nobody", func() bool { return len(enforced(b)) == 0 })

	// Changes made on both nodes at once are all in the history, once.
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			n := []*testNode{a, b}[i%2]
			if out, code := n.operate(t, "key", "ban", fmt.Sprint("client_id=c", i), "--for", "1h", "--reason", fmt.Sprint("because ", i)); code != 0 {
				t.Errorf("%s", out)
			}
		})
	}
	all.Wait()
	out, _ := b.operate(t, "audit", "--limit", "1000")
	for i := range 10 {
		if n := strings.Count(out, fmt.Sprintf("reason because %d\n", i)); n != 1 {
			t.Errorf("ban %d is %d times in the history:\n%s", i, n, out)
		}
	}
}

// On one node, a file keeps modes and history across a restart, and a mode ends.
func TestPromoteInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overlay.json")
	args := []string{"--rules", servertest.File(t, "rules.yaml", modeRules), "--overlay", file}
	n := serve(t, args...)
	n.promote(t, "api/client_id", "100%")
	n.promote(t, "api/path", "off", "--limit", "slow", "--for", "30d")
	if out, code := n.operate(t, "key", "allow", "client_id=vip", "--for", "1h", "--reason", "moves"); code != 0 || !strings.Contains(out, `overrides: {"vip": unlimited}`) {
		t.Errorf("%d %s", code, out)
	}
	n.end(t)
	n = serve(t, args...)
	if n.allows(t, "ann", 6) || !n.allows(t, "vip", 6) {
		t.Error("lost with a restart")
	}
	if got := strings.Count(first(n.operate(t, "audit")), "reason "); got != 3 {
		t.Errorf("%d changes are left of three", got)
	}
	n.promote(t, "api/client_id", "100%", "--for", "2s")
	servertest.Await(t, "the mode to end", func() bool { return n.allows(t, "ann", 6) })
	n.end(t)
}

func first(s string, _ int) string { return s }

// The guard goes back to what was before when too much is refused, and says why;
// it keeps what goes well, and leaves alone what somebody else changed.
func TestPromoteGuard(t *testing.T) {
	t.Parallel()
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", modeRules))
	n.promote(t, "api/client_id", "1%", "--for", "1h")
	done := make(chan string, 1)
	guarded := func(watch string) {
		go func() {
			out, code := n.operate(t, "promote", "api/client_id", "--to", "100%", "--reason", "try", "--guard", "20%", "--watch", watch, "--least", "20")
			done <- fmt.Sprintf("exit status %d\n%s", code, out)
		}()
	}
	state := func() (mode string, percent int64) {
		var st struct {
			Limits []struct {
				Mode    string
				Percent int64
			}
		}
		_, text := get(t, n.admin+"/v1/admin/modes?domain=api&rule=client_id")
		if err := json.Unmarshal([]byte(text), &st); err != nil || len(st.Limits) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		return st.Limits[0].Mode, st.Limits[0].Percent
	}
	is := func(want int64) func() bool {
		return func() bool { _, percent := state(); return percent == want }
	}
	guarded("10m")
	servertest.Await(t, "the promotion", is(100))
	n.passed(t, "greedy", 60)
	servertest.Await(t, "the guard to go back", is(1))
	if out := <-done; !strings.HasPrefix(out, "exit status 1\n") || !strings.Contains(out, "decisions were refused in ") ||
		!strings.Contains(out, "more than 20%: gone back") {
		t.Errorf("the guard says %s", out)
	}
	if out := first(n.operate(t, "audit", "--limit", "1")); !strings.Contains(out, "to     1% until ") || !strings.Contains(out, "reason guard of weir promote: limit per_year: ") {
		t.Errorf("the history says %s", out)
	}

	// Nothing is refused: it stays, and the earlier end is gone with the mode.
	guarded("2s")
	if out := <-done; !strings.HasPrefix(out, "exit status 0\n") || !strings.Contains(out, "the mode stays") || !strings.Contains(out, "too few to judge by") {
		t.Errorf("the guard says %s", out)
	}
	if mode, percent := state(); mode != "enforce" || percent != 100 {
		t.Errorf("%s %d%%", mode, percent)
	}

	// Somebody else is faster.
	n.promote(t, "api/client_id", "2%")
	guarded("10m")
	servertest.Await(t, "the promotion", is(100))
	n.promote(t, "api/client_id", "3%")
	if out := <-done; !strings.HasPrefix(out, "exit status 2\n") || !strings.Contains(out, "changed meanwhile") {
		t.Errorf("the guard says %s", out)
	}
	if _, percent := state(); percent != 3 {
		t.Errorf("%d%%, want what was set last", percent)
	}

	// The server ends.
	guarded("10s")
	servertest.Await(t, "the promotion", is(100))
	n.end(t)
	if out := <-done; !strings.HasPrefix(out, "exit status 2\n") || !strings.Contains(out, "the mode stays, and was not watched to the end") {
		t.Errorf("the guard says %s", out)
	}
}

// What cannot be is refused with what was meant.
func TestPromoteThatCannotBe(t *testing.T) {
	t.Parallel()
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", modeRules), "--limit", "100/minute by ip")
	f := func(want string, args ...string) {
		t.Helper()
		if out, code := n.operate(t, append([]string{"promote"}, args...)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%q: exit status %d, want 2 and %q:\n%s", args, code, want, out)
		}
	}
	f(`did you mean "client_id"?`, "api/clientid", "--to", "10%", "--reason", "x")
	f(`no limits in a domain "app"`, "app/client_id", "--to", "10%", "--reason", "x")
	f(`has no limit "fats" (did you mean "fast"?)`, "api/path", "--limit", "fats", "--to", "10%", "--reason", "x")
	f("write DOMAIN/RULE", "client_id", "--to", "10%", "--reason", "x")
	for _, to := range []string{"0%", "101%", "1.5%", "half", "-3%"} {
		f("whole percentage from 1% to 100%", "api/client_id", "--to="+to, "--reason", "x")
	}
	f("write a percentage", "api/client_id", "--to", "10%", "--reason", "x", "--guard", "many")
	f("--for", "api/client_id", "--to", "10%", "--reason", "x", "--for", "soon")
	if out := n.promote(t, "api/100/minute by ip", "off"); !strings.Contains(out, "enforce, by the rules -> off") {
		t.Errorf("a limit in words: %s", out)
	}
	if out := first(n.operate(t, "audit")); strings.Count(out, "reason ") != 1 {
		t.Errorf("what was refused is in the history: %s", out)
	}
	key := func(want string, args ...string) {
		t.Helper()
		if out, code := n.operate(t, append([]string{"key"}, args...)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("%q: exit status %d, want 2 and %q:\n%s", args, code, want, out)
		}
	}
	key("set twice", "ban", "client_id=a", "1h", "--for", "2h")
	key("for how long", "allow", "client_id=a")
	key("--for belongs to", "reset", "client_id=a", "--for", "2h")
	key("inspect looks", "inspect", "client_id=a", "--reason", "x")
	n.end(t)
}
