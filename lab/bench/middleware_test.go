package bench

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/ours"
)

// BenchmarkMiddleware is what an allowed request costs by client address, with
// its header fields: what it says less what it says of bare is added.
func BenchmarkMiddleware(b *testing.B) {
	limit := func(count int64) *weir.Limit { return weir.PerSecond(count, algorithm.TokenBucket) }
	settled := limit(1 << 40)
	settled.Adjustment = &weir.Adjustment{}
	settled.Adjustment.RefundOn.Add(500, 599)
	for _, c := range []struct {
		name   string
		limits weir.Limits
	}{
		{"bare", nil},
		{"one limit", weir.Limits{limit(1 << 40)}},
		{"two limits", weir.Limits{limit(1 << 40), weir.PerHour(1<<50, algorithm.FixedWindow)}},
		{"settled by the answer", weir.Limits{settled}},
		{"concurrency", weir.Limits{weir.PerHour(1000, algorithm.Concurrency)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, done, err := ours.Behind(c.limits)
			if err != nil {
				b.Fatal(err)
			}
			defer done()
			run(b, 1, ours.Serving(h, c.limits != nil))
		})
	}
}
