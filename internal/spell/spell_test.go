package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"second", "minute", "hour", "day", "month", "api"}
	f := func(word, want string) {
		t.Helper()
		if got := Nearest(word, known); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	f("minuet", "minute") // a swap
	f("mintue", "minute")
	f("secnd", "second")
	f("hours", "hour")
	f("da", "day")
	f("fortnight", "")
	f("x", "")
	f("", "")
	f("minute", "") // nothing to mean
	f(strings.Repeat("minute", 20), "")
}

func TestDistance(t *testing.T) {
	for pair, want := range map[string]int{"minuet minute": 1, "kye key": 1, "a b": 1, "same same": 0, " abc": 3} {
		a, b, _ := strings.Cut(pair, " ")
		if got := Distance(a, b); got != want {
			t.Errorf("%s: %d, want %d", pair, got, want)
		}
	}
}
