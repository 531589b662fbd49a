package period

import (
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// MeantRate returns the rate that text was meant to be, as ParseRate reads it, or ""
// when it is unclear: "3/2s" for "1.5/second", "1000/second" for "1k/s" and
// "1,000/s", "10/second" for "10r/s" and "10rps".
func MeantRate(text string) string {
	count, each, ok := meantPeriod(text)
	if !ok {
		return ""
	}
	factor := int64(1)
	switch {
	case strings.HasSuffix(count, "k"), strings.HasSuffix(count, "K"):
		factor, count = 1000, count[:len(count)-1]
	case strings.HasSuffix(count, "M"):
		factor, count = 1_000_000, count[:len(count)-1]
	}
	whole, fraction, _ := strings.Cut(withoutCommas(count), ".")
	if len(fraction) > 6 || strings.Trim(whole+fraction, "0123456789") != "" || whole+fraction == "" || len(whole) > 9 {
		return ""
	}
	scale := int64(1)
	for range fraction {
		scale *= 10
	}
	units, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil {
		return ""
	}
	units *= factor
	common := gcd(units, scale)
	if common == 0 || units == 0 {
		return ""
	}
	units, scale = units/common, scale/common
	if each > weir.MaxPeriod/time.Duration(scale) {
		return ""
	}
	return FormatRate(units, each*time.Duration(scale))
}

// unitWords are what others write behind the count of a rate.
var unitWords = []string{"requests", "request", "reqs", "req", "r"}

// shortRates are rates whose period is in one word with what is counted.
var shortRates = []struct {
	word string
	each time.Duration
}{{"rps", time.Second}, {"qps", time.Second}, {"rpm", time.Minute}, {"rph", time.Hour}}

// meantPeriod splits a rate into its count and its period: "10" and a second for
// "10/s", "10r/s", "10 requests per second" and "10rps".
func meantPeriod(text string) (count string, each time.Duration, ok bool) {
	count, per, ok := strings.Cut(text, "/")
	if !ok {
		count, per, ok = strings.Cut(text, " per ")
	}
	if !ok {
		for _, short := range shortRates {
			if count, ok = strings.CutSuffix(strings.ToLower(text), short.word); ok {
				return strings.TrimSpace(count), short.each, true
			}
		}
		return "", 0, false
	}
	each, err := Parse(per)
	count = strings.TrimSpace(count)
	for _, word := range unitWords {
		if number, ok := strings.CutSuffix(count, word); ok {
			return strings.TrimSpace(number), each, err == nil
		}
	}
	return count, each, err == nil
}

// withoutCommas returns a number that commas split into groups of three as one of
// digits, and any other text as it is.
func withoutCommas(s string) string {
	groups := strings.Split(s, ",")
	for i, g := range groups {
		if g == "" || len(g) > 3 || i > 0 && len(g) != 3 {
			return s
		}
	}
	return strings.Join(groups, "")
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
