package advice

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// allowanceInWords is the limit in words: "100 per minute".
func (f *Figures) allowanceInWords() string {
	unit := map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}[f.Period]
	if unit == "" {
		unit = lasting(f.Period)
	}
	return fmt.Sprintf("%d per %s", f.Allowance, unit)
}

// writeCount is a number of things. The plural is the singular with an s, unless it is
// given.
func writeCount(n int64, one string, more ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(more) > 0:
		return strconv.FormatInt(n, 10) + " " + more[0]
	}
	return strconv.FormatInt(n, 10) + " " + one + "s"
}

// percent is a share in words: "12 %", "0.4 %".
func percent(share float64) string {
	v := 100 * share
	switch {
	case v > 0 && v < 0.1:
		return "less than 0.1 %"
	case v < 10 && v != float64(int64(v)):
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " %"
	case v > 99 && v < 100:
		return "more than 99 %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

// lasting is a duration in words: "36 hours", "7 days", "10 minutes".
func lasting(d time.Duration) string {
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d >= 2*u.length || d == u.length {
			return writeCount(int64(d.Round(u.length)/u.length), u.name)
		}
	}
	return d.String()
}

// roundUp returns the next number from n on that people would choose: two digits at
// most, and zeros.
func roundUp(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	if n/unit >= 20 {
		unit *= 5
	}
	return max((n+unit-1)/unit*unit, 1)
}
