package main

import (
	"math"
	"testing"
)

// TestCostFollowsCalls: what decisions take depends on the calls that the fleet makes, not
// on those that were made while they were measured.
func TestCostFollowsCalls(t *testing.T) {
	again, first := pace{ns: 400, calls: 0.01}, pace{ns: 8000, calls: 1}
	for _, c := range []struct {
		calls float64
		a, b  pace
		want  float64
	}{
		{0.01, again, first, 400},
		{1, again, first, 8000},
		{0.505, again, first, 4200},
		{1.5, again, first, 11838}, // beyond what was measured, on the same line
		{0, pace{4000, 0.5}, pace{8000, 1}, 4000},
		{0.2, pace{8000, 1}, pace{8100, 1}, 8000}, // both ask the store: nothing else is known
		{0, pace{500, 0}, pace{900, 0}, 500},
	} {
		if got := costAt(c.calls, c.a, c.b); math.Abs(got-c.want) > 1 {
			t.Errorf("%v calls between %+v and %+v cost %.0f ns, want %.0f", c.calls, c.a, c.b, got, c.want)
		}
	}
}

// TestPacesAreApart: the two measurements lie on both sides of what a fleet does, so that
// one limit that is used up at once is not taken for the cost of all.
func TestPacesAreApart(t *testing.T) {
	o := small("limit: 3/hour")
	_, ways := playFor(t, o, "strict")
	user := func(users int) pace {
		p, err := measurePace(t.Context(), ways[0].asks, &o, func(i int) (int, uint64) { return i % users, 0 })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if again, first := user(10), user(newUsers); again.calls > 0.5 || first.calls < 0.9 {
		t.Errorf("ten users made %.3f calls a decision and new ones %.3f: want near 0 and 1", again.calls, first.calls)
	}
}
