package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDemand: of what keys ask for, peaks and refusals are those of a plain count of all
// windows.
func TestDemand(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := demand{period: 60_000_000}
		asked := map[[2]int64]int64{}
		now := int64(0)
		for range r.IntN(400) {
			now += r.Int64N(20_000_000)
			key, units := r.Int64N(20), r.Int64N(3)+1
			if r.IntN(3) == 0 {
				key = 0 // one asks for more
			}
			asked[[2]int64{key, now / d.period}] += units
			d.addUnits(uint64(key), now, units)
		}
		peaks := map[int64]int64{}
		for at, n := range asked {
			peaks[at[0]] = max(peaks[at[0]], n)
		}
		got := d.report()
		if got == nil {
			if len(asked) > 0 {
				t.Fatalf("seed %d: nothing of %v", seed, asked)
			}
			continue
		}
		var all []int64
		for _, n := range peaks {
			all = append(all, n)
		}
		slices.Sort(all)
		if got.Keys != int64(len(all)) || got.Max != all[len(all)-1] || got.P50 != all[(len(all)+1)/2-1] || len(got.Trials) > mostTrials {
			t.Fatalf("seed %d: %+v of peaks %v", seed, got, all)
		}
		for _, trial := range got.Trials {
			var units, keys int64
			for _, n := range asked {
				units += max(n-trial.Count, 0)
			}
			for _, n := range all {
				if n > trial.Count {
					keys++
				}
			}
			if trial.Units != units || trial.Keys != keys || units == 0 {
				t.Fatalf("seed %d: %+v refuses %d units of %d keys", seed, trial, units, keys)
			}
		}
	}
}
