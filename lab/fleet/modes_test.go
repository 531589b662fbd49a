package fleet

import (
	"os/exec"
	"strings"
	"testing"
)

// What cannot be counted in a mode is refused when the rules load, with what to use
// instead.
func TestImpossibleModesAreRefused(t *testing.T) {
	processes(t)
	possible := map[string]bool{}
	for _, c := range cells() {
		possible[c.key()] = true
	}
	instead := map[string]string{
		"leased-leaky_queue":   "algorithm: token_bucket",
		"leased-sliding_log":   "algorithm: sliding_window",
		"leased-lockout":       "use strict or local consistency",
		"leased-approximate":   "consistency: local",
		"eventual-leaky_queue": "algorithm: token_bucket",
		"eventual-sliding_log": "algorithm: sliding_window",
		"eventual-lockout":     "use strict or local consistency",
		"eventual-concurrency": "consistency: leased",
		"eventual-approximate": "consistency: local",
		"strict-approximate":   "consistency: local",
	}
	for _, a := range []string{"fixed_window", "sliding_window", "sliding_counter", "sliding_subwindows", "token_bucket", "leaky_bucket",
		"leaky_queue", "sliding_log", "lockout", "concurrency", "approximate"} {
		for _, mode := range []string{"strict", "leased", "eventual"} {
			c := cell{algorithm: a, mode: mode}
			out, err := exec.Command(command, "check", rules(t, c.descriptor(100, "minute"))).CombinedOutput()
			want := instead[c.key()]
			switch {
			case possible[c.key()] == (want != ""):
				t.Errorf("%s: neither possible nor impossible here", c.key())
			case possible[c.key()] && err != nil:
				t.Errorf("%s is refused: %s", c.key(), out)
			case !possible[c.key()] && (err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "rules.yaml:3:")):
				t.Errorf("%s: %v, want the place and %q in: %s", c.key(), err, want, out)
			}
		}
	}
	// A window that begins with a key's first request has no end that nodes know.
	text := "{key: k, limit: 100/minute, algorithm: fixed_window, anchor: first_request, consistency: eventual}"
	if out, err := exec.Command(command, "check", rules(t, text)).CombinedOutput(); err == nil || !strings.Contains(string(out), "use leased or strict") {
		t.Errorf("first_request and eventual: %v, %s", err, out)
	}
}
