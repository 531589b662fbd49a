package verdict_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

func ExampleClassify() {
	from := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	g := verdict.NewGatherer(verdict.Address, 100, time.Minute, from, from.Add(time.Hour), time.Time{})
	for m := range 20 {
		g.Add(&verdict.Row{
			At: from.Add(time.Duration(m) * time.Minute), Span: time.Minute,
			Allowed: 100, Refused: 300, Cost: 400, Early: 290,
			Identified: true, Path: "/v1/sync", Agent: "python",
			Answers: verdict.Answers{Count: 100, OK: 100},
		})
	}
	v := verdict.Classify(g.Evidence())
	fmt.Println(v.Class)
	for _, reason := range v.Reasons {
		fmt.Println("-", reason)
	}
	// Output:
	// runaway_client
	// - it does not wait when it is told to: of its requests 5800 came too early, against 6000 refusals
	// - its demand is even: it varies by 0 % around the mean
	// - it asks for 1 path only
	// - in the 20 minutes in which it came it asked for 4.0 times what is allowed
	// - it says that it is no browser but python
}
