package breaker

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the calls, the failures are those of a list of all of them.
func TestFailures(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var f Failures
		var calls []bool
		share := rnd.IntN(10)
		for range 200 {
			failed := rnd.IntN(10) < share
			f.Record(failed)
			calls = append(calls, failed)
			row := 0
			for row < len(calls) && calls[len(calls)-1-row] {
				row++
			}
			newest := calls[max(len(calls)-last, 0):]
			n := len(newest) - len(slices.DeleteFunc(slices.Clone(newest), func(failed bool) bool { return failed }))
			if f.Row() != row || f.IsRow() != (row >= 5) || f.AreMany() != (row >= 5 || len(newest) == 20 && n >= 10) {
				t.Fatalf("seed %d: after %v: row %d, in a row %v, many %v", seed, calls, f.Row(), f.IsRow(), f.AreMany())
			}
		}
	}
}
