package chromium

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// TestFamilyCopiedLines copies the lines of limits in every place of a rules file, with
// another number, and pastes them into a file of their own: the client has the number there,
// and what the rule is not about has none.
func TestFamilyCopiedLines(t *testing.T) {
	t.Parallel()
	const rules = `domain: api
descriptors:
  - {key: plain, limit: 100/minute}
  - {key: odd_period, limit: 100/150s}
  - {key: named, limit: 100/hour, name: of its own}
  - {key: bucket, limit: 100/minute, algorithm: token_bucket, burst: 20}
  - {key: shadowed, limit: 100/minute, mode: shadow}
  - {key: held, limit: 100, algorithm: concurrency, ttl: 30s}
  - {key: "yes", value: "off", limit: 100/minute}
  - {key: path, value: "/a \"b\"/c=d", limit: 100/minute}
  - {key: path, value: "/x\uFEFF\U0010FFFE\u2028\uFFFF", limit: 100/minute}
  - key: path
    value: /login
    descriptors: [{key: remote_address, limit: 100/minute, algorithm: fixed_window}]
  - key: user
    tiers:
      by: plan
      limits: {pro: [{name: minute, limit: 100/minute}, {name: hour, limit: 5000/hour}], "big-*": 100/day}
    overrides: {"acme corp": 100/150s}
`
	const minute, hour, day = 60_000, 3_600_000, 86_400_000
	type limited struct {
		rule, limit, algorithm string
		period, burst          int64
		ask                    []string // what meets the limit
		beside                 []string // what meets its rule, or part of it, and not the limit
		says                   string
	}
	cases := []limited{
		{"plain", "plain", "sliding_window", minute, 0, []string{"plain=x"}, []string{"other=x"}, "7/minute sliding_window"},
		{"odd_period", "odd_period", "sliding_window", 150_000, 0, []string{"odd_period=x"}, []string{"other=x"}, "7/2m30s sliding_window"},
		{"named", "of its own", "sliding_window", hour, 0, []string{"named=x"}, []string{"other=x"}, "7/hour sliding_window"},
		{"bucket", "bucket", "token_bucket", minute, 20, []string{"bucket=x"}, []string{"other=x"}, "7/minute token_bucket burst 20"},
		{"shadowed", "shadowed", "sliding_window", minute, 0, []string{"shadowed=x"}, []string{"other=x"}, "shadow"},
		{"held", "held", "concurrency", 30_000, 0, []string{"held=x"}, []string{"other=x"}, "7 at once"},
		{"yes=off", "yes off", "sliding_window", minute, 0, []string{"yes=off"}, []string{"yes=on"}, "7/minute"},
		{`path="/a \"b\"/c=d"`, `"/a \"b\"/c=d"`, "sliding_window", minute, 0, []string{`path=/a "b"/c=d`}, []string{"path=/a"}, "7/minute"},
		{`path="/x\ufeff\U0010fffe\u2028\uffff"`, `"/x\ufeff\U0010fffe\u2028\uffff"`, "sliding_window", minute, 0, []string{"path=/x\ufeff\U0010fffe\u2028\uffff"}, []string{"path=/x"}, "7/minute"},
		{`path="/login"/remote_address`, "/login by remote_address", "fixed_window", minute, 0, []string{"path=/login", "remote_address=192.0.2.1"}, []string{"remote_address=192.0.2.1"}, "7/minute fixed_window"},
		{"user", "minute", "sliding_window", minute, 0, []string{"user=bob", "plan=pro"}, []string{"user=bob"}, "7/minute sliding_window"},
		{"user", "user of plan big-*", "sliding_window", day, 0, []string{"user=bob", "plan=big-one"}, []string{"user=bob", "plan=pro"}, "7/day sliding_window"},
		{"user", `user of "acme corp"`, "sliding_window", 150_000, 0, []string{"user=acme corp"}, []string{"user=bob"}, "7/2m30s sliding_window"},
	}
	end := time.Now().Truncate(time.Minute)
	var events []event.Event
	for i, l := range cases {
		at := end.Add(-10 * time.Minute)
		place := event.LimitRef{Name: limits.Name{Domain: "api", Rule: l.rule, Limit: l.limit}, Algorithm: l.algorithm, Allowance: 100, PeriodMS: l.period, Burst: max(l.burst, 100)}
		if l.burst > 0 {
			place.Burst = l.burst
		}
		for j, e := range []event.Event{
			{Record: &event.Record{First: at, Last: at.Add(time.Second), LimitRef: place, Key: "x", Unhashed: true, Outcome: "refused", Count: 9, Cost: 9, Every: 1, Source: "store"}},
			{Rollup: &event.Rollup{From: at, To: at.Add(time.Minute), LimitRef: place, Counts: map[string]uint64{"refused": 9}}},
		} {
			e.Source, e.Sequence, e.Time = "edge-2/1", uint64(2*i+j+1), end
			events = append(events, e)
		}
	}
	n := serveRules(t, rules, "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	b.width(wide)
	weir := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), command, args...).CombinedOutput()
		return string(out), err
	}
	for _, l := range cases {
		q := url.Values{"domain": {"api"}, "rule": {l.rule}, "limit": {l.limit}, "line": {"7"}, "live": {"0"}}
		b.open("/rule?" + q.Encode())
		b.until(`document.querySelector("[data-test=mode]") && [...document.querySelectorAll("button")].some((e) => e.textContent === "Copy YAML" && !e.disabled)`)
		b.do(`window.copied = undefined; Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText: async (text) => { window.copied = text } } })`)
		b.press("main", "Copy YAML")
		b.until(`window.copied`)
		lines := js[string](b, "window.copied")
		file := filepath.Join(t.TempDir(), "pasted.yaml")
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := weir("check", file); err != nil {
			t.Errorf("%s: %s\n%s", l.limit, out, lines)
			continue
		}
		out, err := weir(append([]string{"explain", "--rules", file, "--domain", "api"}, l.ask...)...)
		if err != nil || !strings.Contains(out, l.says) || !strings.Contains(out, fmt.Sprintf("limit %s\n", l.limit)) || !strings.Contains(out, "7/") && !strings.Contains(out, "7 at once") {
			t.Errorf("%s, pasted, decides %v otherwise: %v\n%s\n%s", l.limit, l.ask, err, out, lines)
		}
		if out, _ := weir(append([]string{"explain", "--rules", file, "--domain", "api"}, l.beside...)...); strings.Contains(out, "allows  ") {
			t.Errorf("%s, pasted, limits %v:\n%s\n%s", l.limit, l.beside, out, lines)
		}
	}
}
