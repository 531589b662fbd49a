package query

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// No query makes the parser fail in another way than by an error.
func FuzzParse(f *testing.F) {
	for _, q := range []string{"", "from=-1h&to=now&step=5m", "domain=a,b&domain=&key=x&path=/a*", "from=2026-03-01T00:00:00Z&step=1d", "top=3&by=node&sort=units"} {
		f.Add(q)
	}
	bounds := rows.Bounds{}
	if err := bounds.CompleteWith(rows.Bounds{}); err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, q string) {
		for _, clients := range []bool{false, true} {
			a, err := ParseParams(q, Takes{Filters: AllFilters, By: []string{"outcome", "node"}, Sort: []string{"units"}, Top: 5, Step: true, Ranged: true, Clients: clients}, now, &bounds)
			if err != nil {
				continue
			}
			if a.From >= a.To || a.From%a.Step != 0 || (a.To-a.From)%a.Step != 0 || a.Step%a.Grain.Seconds() != 0 || a.CountSteps() > maxPoints || a.CountSteps() < 1 {
				t.Errorf("%q: %d to %d by %d, %s", q, a.From, a.To, a.Step, a.Grain)
			}
		}
	})
}
