package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/lab/bench/ours"
)

func TestObserverIsMeasured(t *testing.T) {
	t.Parallel()
	s := short
	s.round = 2 * time.Millisecond
	text, err := compareObserver(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := lines(text)
	for i, c := range ours.ObservedCases {
		if at := i + 2; at >= len(got) || got[at] != c.Name {
			t.Errorf("%q is not line %d of the table:\n%s", c.Name, at, text)
		}
	}
	for _, aim := range []string{"≤ 0.10, ", "≤ 100 ns, "} {
		if !strings.Contains(text, aim) {
			t.Errorf("no aim %q:\n%s", aim, text)
		}
	}
}
