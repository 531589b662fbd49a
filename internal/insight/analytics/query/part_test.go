package query

import (
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"pgregory.net/rapid"
)

// Parts of a range are the range: without gaps, without overlap, and coarse ones
// on whole steps.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		finest := rows.Grain(rapid.IntRange(1, 3).Draw(t, "finest"))
		from := rapid.Int64Range(0, 1000).Draw(t, "from") * finest.Seconds()
		to := from + rapid.Int64Range(1, 100_000).Draw(t, "length")*finest.Seconds()
		at := from
		for _, p := range DivideRange(from, to, finest, rows.Day) {
			if p.from != at || p.to <= p.from || p.grain < finest || p.from%p.grain.Seconds() != 0 || p.to%p.grain.Seconds() != 0 {
				t.Fatalf("part %+v at %d", p, at)
			}
			at = p.to
		}
		if at != to {
			t.Fatalf("ends at %d, not %d", at, to)
		}
	})
}
