package report

import "testing"

func TestKindOf(t *testing.T) {
	for rule, want := range map[string]string{
		"remote_address": "address", "path_/login/remote_address": "address", "user": "account", "remote_address, user": "account",
		"tenant-id": "account", "path": "", "": "", "skip": "", "zip": "",
	} {
		if got := string(kindOfRule(rule)); got != want {
			t.Errorf("%q: %q, want %q", rule, got, want)
		}
	}
}
