package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/checks"
)

// FuzzIdempotencyKey: a header is read as the key that it quotes, of printable ASCII and no
// longer than may be, or is an error; written again it is the same key.
func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{`"a"`, `a`, `"\"\\"`, `"a`, ` "a" `, `"a";b`, `""`, `"\a"`, "\"\x7f\"", `"` + strings.Repeat("k", 257) + `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := readKey(http.Header{keyHeader: {value}})
		if err != nil {
			if key != "" {
				t.Errorf("%q with %v", key, err)
			}
			return
		}
		if key == "" || len(key) > checks.MaxLease || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is read as %q", value, key)
		}
		if written := strconv.Quote(key); written != strings.Trim(value, " ") {
			t.Fatalf("%q is read as %q, which is written %s", value, key, written)
		}
		if again, err := readKey(http.Header{keyHeader: {strconv.Quote(key)}}); err != nil || again != key {
			t.Fatalf("%q, then %q, %v", key, again, err)
		}
	})
}
