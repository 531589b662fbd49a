package report

import (
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units, seconds := rapid.Int64Range(1, 1e6).Draw(t, "units"), rapid.Int64Range(1, 60).Draw(t, "seconds")
		peak := rapid.Int64Range(rows.DivideUp(units, seconds), units).Draw(t, "peak")
		windowMS := rapid.Int64Range(1, 30).Draw(t, "window") * 1000
		var sum, n, most int64
		for _, w := range spreadUnits(units, peak, seconds, windowMS, rows.Minute) {
			sum, n, most = sum+w.units*w.n, n+w.n, max(most, w.units)
		}
		if sum != units || n > rows.DivideUp(seconds*1000, windowMS) || most < peak {
			t.Fatalf("%d units in %d windows, at most %d: want %d units, a peak of %d at least", sum, n, most, units, peak)
		}
	})
}
