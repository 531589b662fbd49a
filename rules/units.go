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

// Rate is so many units in a period.
type Rate struct {
	Count  int64
	Period time.Duration
}

// ParseRate reads "100/minute", "100/10m", "5 / 2 days" or "100 per minute".
// The count may be 0 and may have underscores. The period is zero where there
// is none, as in "20", which only a concurrency limit can do with.
func ParseRate(s string) (Rate, error) {
	n, p, err := period.ParseRate(s)
	return Rate{Count: n, Period: p}, err
}

// String returns the rate as it can be written: "100/10m".
func (r Rate) String() string { return period.FormatRate(r.Count, r.Period) }

// parsePercent reads "10%".
func parsePercent(s string) (int64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	n, err := period.Count(strings.TrimSpace(digits))
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a share: write it like 10%%", s)
	}
	return n, nil
}
