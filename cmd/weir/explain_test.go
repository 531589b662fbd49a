package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A theorem is of an algorithm that there is: a name that changed is found.
func TestTheoremsAreOfAlgorithms(t *testing.T) {
	for name := range theorems {
		if algorithm.ByName(name) == nil {
			t.Errorf("there is no algorithm %s", name)
		}
	}
}

// What is printed of a limit is the number that it promises, and is called exact only
// where that is no more than its count.
func TestFamilyAtMostIsPrinted(t *testing.T) {
	for _, a := range algorithm.All {
		for _, burst := range []int64{0, 1, 30} {
			for excess := range int64(2) {
				l := &weir.Limit{Name: "l", Algorithm: a, Count: 10, Period: time.Minute, Burst: burst, Mode: weir.Mode{Excess: 20 * excess}}
				if l.Compile() != nil {
					continue
				}
				g := l.Guarantee()
				got, number := promise(l, "enforce"), fmt.Sprintf("at most %d in any ", g.AtMost)
				if l.Traits()&weir.Leases != 0 {
					number = "at most 10 at once"
				}
				if !strings.Contains(got, number) || strings.Contains(got, "exact") != (g.AtMost <= 10 && a.Name() != "approximate") {
					t.Errorf("%s, burst %d, excess %d: %q, want %q", a.Name(), burst, excess, got, number)
				}
				if got := promise(l, "shadow"); strings.Contains(got, "most") || strings.Contains(got, "exact") {
					t.Errorf("a shadow promises %q", got)
				}
			}
		}
	}
}
