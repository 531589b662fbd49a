package measure

import (
	"fmt"
	"math"
	"slices"
)

// Spread is the middle and the ends of several samples.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf returns the spread of samples. Of an even number the median is the
// mean of the middle two; of none all is zero.
func SpreadOf(samples []float64) Spread {
	if len(samples) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// String returns "48 (46–51)", with decimals only where figures are small.
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", Number(s.Median), Number(s.Min), Number(s.Max))
}

// Number returns x with about three significant digits.
func Number(x float64) string {
	switch {
	case x == 0 || math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
