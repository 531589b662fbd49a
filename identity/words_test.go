package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// countedKeys counts how often a key is looked for.
type countedKeys struct {
	identity.KeyTable
	looks int
}

func (k *countedKeys) Key(sum [32]byte) *identity.Key {
	k.looks++
	return k.KeyTable.Key(sum)
}

// TestAuthorizationWordsAreBounded: a line of another scheme is looked through for keys, each
// word by a hash. One of more words than a scheme has is refused, and not hashed word by word.
func TestAuthorizationWordsAreBounded(t *testing.T) {
	keys := &countedKeys{KeyTable: identitytest.Keys(t, "keys.yaml", "- {sha256: "+identitytest.Digest(knownKey)+", user: alice}\n")}
	r := identitytest.New(t, identity.Options{APIKey: identity.APIKeyOptions{From: []string{"bearer"}}, User: []string{"api_key"}, Keys: keys})
	for _, c := range []struct {
		line    string
		refused bool
	}{
		{"Digest " + strings.Repeat(`name="value", `, 31), false},
		{"Digest " + strings.Repeat(`name="value", `, 32), true},
		{"Basic" + strings.Repeat(" ", 32_000) + "x", false},
		{strings.Repeat("a ", 16_000), true},
		{strings.Repeat("a,", 16_000), true},
		{strings.Repeat("a=\x80", 10_000), true},
		{"Digest " + strings.Repeat("a ", 62) + knownKey, true},
		{"Digest " + strings.Repeat("a ", 16_000) + knownKey, true},
	} {
		keys.looks = 0
		if _, refused := asked(t, r, fields("Authorization", c.line)); refused != c.refused || keys.looks > 64 {
			t.Errorf("%s: refused %v, want %v; %d words were hashed", fmt.Sprintf("%.40q...", c.line), refused, c.refused, keys.looks)
		}
	}
}
