package weir_test

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir"
)

// FuzzKey: two lists of as many parts have the same key only if they are the
// same list.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "c", "a", "b", "c")
	f.Add("a\x1f1", "", "b", "a", "1\x1f", "b")
	f.Add("", "\x1f0", "", "\x1f", "0", "")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g string) {
		var r weir.Request
		one, two := []string{a, b, c}, []string{d, e, g}
		if (r.Key(one...) == r.Key(two...)) != slices.Equal(one, two) {
			t.Errorf("%q and %q", one, two)
		}
		if (r.Key(a, b) == r.Key(c, d)) != (a == c && b == d) {
			t.Errorf("%q, %q and %q, %q", a, b, c, d)
		}
	})
}
