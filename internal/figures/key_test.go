package figures_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/figures"
)

func TestKeysAndScopes(t *testing.T) {
	for key, want := range map[string]string{"": "", "ann": "ann", "a\x1fb\x1f1": "a b", "a b\x1fc\x1f3": `a\ b c`, "a\x1fb c\x1f1": `a b\ c`, `a\` + "\x1fb\x1f2": `a\\ b`, "a\x1fb\x1fc\x1f1\x1f1": "a b c", "remote_address\x1f192.0.2.1": "remote_address 192.0.2.1"} {
		if got := figures.Key(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	for scope, want := range map[string]string{"api/user": "api/user", "api/user\x1fbanned": "api/user banned", "\x1flimit\x1fuser\x1f5/minute by user": "limit user 5/minute by user"} {
		if got := figures.Scope(scope); got != want {
			t.Errorf("%q: %q, want %q", scope, got, want)
		}
	}
}
