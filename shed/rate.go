package shed

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

// Rate is so many units in a period, written as in a rules file: "100/minute",
// "100/10m", "5 per 2 days", "1_000_000/day". The zero Rate is none.
type Rate struct {
	// Count is in units, 1 to weir.MaxCost.
	Count int64
	// Period is in whole microseconds, at most weir.MaxPeriod.
	Period time.Duration
}

// parseRate reads a rate. The count is at least 1.
func parseRate(text string) (Rate, error) {
	r, err := period.ParseRate(text)
	switch {
	case err != nil:
		return Rate{}, period.Cured(err)
	case r.Period == 0:
		return Rate{}, fmt.Errorf("%q is not a limit: write it like 100/minute or 100/10m", clipText(text))
	case r.Count < 1 || r.Count > weir.MaxCost:
		return Rate{}, fmt.Errorf("%q: the count must be between 1 and 2^53; to switch a limiter off set its mode to off", clipText(text))
	}
	return Rate(r), nil
}

// String returns the rate as it is written, empty for none.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return period.FormatRate(r.Count, r.Period)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = parseRate(string(text))
	return err
}
