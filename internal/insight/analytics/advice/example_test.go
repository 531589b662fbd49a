package advice_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
)

func ExampleAdvise() {
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	a := advice.Advise(&advice.Figures{
		Algorithm: "sliding_window", Allowance: 5000, Period: time.Minute,
		From: from, To: from.Add(7 * 24 * time.Hour), Allowed: 1_200_000,
		Sample: advice.Quantiles{Clients: 400, P95: 60, Max: 110},
	})
	fmt.Println(a.Badges)
	fmt.Println(a.Advice[0].Text)
	// Output:
	// [never_hit too_loose]
	// It refused nothing in 1200000 decisions of 7 days, and the busiest of 400 sampled clients used 2.2 % of the 5000 per minute. Lower it to 250, twice that client's peak, or remove it.
}
