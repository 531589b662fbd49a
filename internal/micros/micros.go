// Package micros converts durations to the microseconds that stores and algorithms count in.
package micros

import (
	"math"
	"time"
)

// Duration returns us microseconds as a duration, cut to the longest that there is. us must not
// be negative.
func Duration(us int64) time.Duration {
	if us > int64(math.MaxInt64)/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Of returns d in microseconds, rounded up.
func Of(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}
