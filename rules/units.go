package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/period"
)

// ParsePeriod reads a period or a duration: "10m", "1h30m", "7d", "2 weeks",
// "minute". It is at least a microsecond and at most weir.MaxPeriod.
func ParsePeriod(s string) (time.Duration, error) { return period.Parse(s) }

// FormatPeriod returns d as ParsePeriod reads it, without zeros: "10m", "7d".
func FormatPeriod(d time.Duration) string { return period.Format(d) }

// rateText is a rate as a rules file has it. The count may be 0, and the period zero, which only
// a concurrency limit can do with.
type rateText struct{ period.Rate }

// parsePercent reads "10%".
func parsePercent(s string) (int64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	n, err := period.Count(strings.TrimSpace(digits))
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a share: write it like 10%%", s)
	}
	return n, nil
}
