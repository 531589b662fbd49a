package algorithm_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

func mustCompile(t *testing.T, l *weir.Limit) *weir.Limit {
	t.Helper()
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// A fraction that was kept under one rate may be none under another. Of what is
// owed, a microsecond at most is lost for it.
func TestReloadedRateKeepsWhatIsSpent(t *testing.T) {
	before := mustCompile(t, weir.PerSecond(7919, algorithm.TokenBucket))
	after := mustCompile(t, weir.PerSecond(2053, algorithm.TokenBucket))
	if before.Layout != after.Layout {
		t.Fatalf("layouts %q and %q: nothing is carried over", before.Layout, after.Layout)
	}
	for spent := int64(7900); spent <= 7919; spent++ {
		cells := make([]int64, before.Cells)
		a := weir.Ask{Now: 1_700_000_000_000_000, Cost: spent}
		before.Algorithm.Step(cells, before, a)
		a.Cost = 100
		if d := after.Algorithm.Step(cells, after, a); d.Allowed() {
			t.Errorf("%d units spent of 7919, fraction %d: 100 of 2053 pass, %d left", spent, cells[1], d.Remaining)
		}
	}
}

// However much is forced, nothing wraps around.
func TestForcedCostsNeverOverflow(t *testing.T) {
	for _, a := range algorithm.All {
		l := mustCompile(t, &weir.Limit{Algorithm: a, Count: 10, Period: time.Hour})
		if l.Traits()&weir.Sketches != 0 {
			continue // no cells
		}
		cells := make([]int64, l.Cells)
		ask := weir.Ask{Now: 1_700_000_000_000_000, Cost: weir.MaxCost, Verb: weir.Force}
		for range 1100 { // 1024 times 2^53 is beyond int64
			ask.ID++
			l.Algorithm.Step(cells, l, ask)
		}
		ask.ID, ask.Cost, ask.Verb = ask.ID+1, 1, weir.Spend
		if d := l.Algorithm.Step(cells, l, ask); d.Allowed() || d.Remaining != 0 {
			t.Errorf("%s: after huge forced costs a unit passes: %+v", a.Name(), d)
		}
	}
}
