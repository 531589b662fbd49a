package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
)

const day = 24 * time.Hour

// unitNames are the units of the original format, in order of length.
var unitNames = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// units gives the length of a period by its word. Months are 30 days and years
// 365, as in envoyproxy/ratelimit; calendar windows have an anchor of their
// own.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
}

// shortUnits are the units of a duration such as 1h30m.
var shortUnits = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute,
	"h": time.Hour, "hr": time.Hour, "d": day, "w": 7 * day, "y": 365 * day,
}

// unit returns the length of the unit that word names, in either number.
func unit(word string) (time.Duration, bool) {
	word = strings.ToLower(word)
	if u, ok := units[strings.TrimSuffix(word, "s")]; ok {
		return u, true
	}
	u, ok := shortUnits[word]
	return u, ok
}

// ParsePeriod reads a period or a duration: "10m", "1h30m", "7d", "2 weeks",
// "minute". It is at least a microsecond and at most weir.MaxPeriod.
func ParsePeriod(s string) (time.Duration, error) {
	rest := strings.TrimSpace(s)
	if u, ok := unit(rest); ok {
		return u, nil
	}
	var sum time.Duration
	for rest != "" {
		i := 0
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		if i == 0 && isWord(rest) {
			return 0, &unitError{word: rest}
		}
		n, err := strconv.ParseInt(rest[:i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: write it like 30s, 10m, 1h30m or 7d", s)
		}
		rest = strings.TrimLeft(rest[i:], " ")
		j := 0
		for j < len(rest) && (rest[j] < '0' || rest[j] > '9') && rest[j] != ' ' {
			j++
		}
		u, ok := unit(rest[:j])
		if !ok {
			if j == 0 {
				return 0, fmt.Errorf("%q has no unit: write %ss or %sm", s, s, s)
			}
			return 0, &unitError{word: rest[:j]}
		}
		if n > int64(weir.MaxPeriod/u) || sum+time.Duration(n)*u > weir.MaxPeriod {
			return 0, fmt.Errorf("%q is longer than ten years", s)
		}
		sum += time.Duration(n) * u
		rest = strings.TrimLeft(rest[j:], " ")
	}
	if sum < time.Microsecond {
		return 0, fmt.Errorf("%q is shorter than a microsecond", s)
	}
	return sum, nil
}

func isWord(s string) bool {
	for _, c := range s {
		if !unicode.IsLetter(c) {
			return false
		}
	}
	return s != ""
}

// unitError is a unit that is none. It has a hint.
type unitError struct{ word string }

func (e *unitError) Error() string { return fmt.Sprintf("unknown unit %q", e.word) }

func (e *unitError) hint() string { return didYouMean(e.word, unitNames) }

// Rate is so many units in a period.
type Rate struct {
	Count  int64
	Period time.Duration
}

// ParseRate reads "100/minute", "100/10m", "5 / 2 days" or "100 per minute".
// The count may be 0 and may have underscores. The period is zero where there
// is none, as in "20", which only a concurrency limit can do with.
func ParseRate(s string) (Rate, error) {
	count, period, ok := strings.Cut(s, "/")
	if !ok {
		count, period, ok = strings.Cut(s, " per ")
	}
	n, err := parseCount(strings.TrimSpace(count))
	if err != nil {
		return Rate{}, fmt.Errorf("%q is not a limit: write it like 100/minute or 100/10m", s)
	}
	if !ok {
		return Rate{Count: n}, nil
	}
	p, err := ParsePeriod(period)
	return Rate{Count: n, Period: p}, err
}

// String returns the rate as it can be written: "100/10m".
func (r Rate) String() string {
	if r.Period == 0 {
		return strconv.FormatInt(r.Count, 10)
	}
	return fmt.Sprintf("%d/%s", r.Count, FormatPeriod(r.Period))
}

// FormatPeriod returns d as ParsePeriod reads it, without zeros: "10m", "7d".
func FormatPeriod(d time.Duration) string {
	for _, name := range unitNames {
		if units[name] == d {
			return name
		}
	}
	if d%day == 0 && d > 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// parseCount reads a number of units in decimal, with underscores if need be.
func parseCount(s string) (int64, error) {
	if len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%q begins with 0, which YAML 1.1 reads as octal: leave the 0 out", s)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || strings.HasPrefix(s, "_") || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

// parsePercent reads "10%".
func parsePercent(s string) (int64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	n, err := parseCount(strings.TrimSpace(digits))
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a share: write it like 10%%", s)
	}
	return n, nil
}

// int11 reads an integer as YAML 1.1 does: 010 is eight.
func int11(s string) (int64, bool) {
	plain := strings.ReplaceAll(s, "_", "")
	if plain == "" || strings.HasPrefix(s, "_") {
		return 0, false
	}
	n, err := strconv.ParseInt(plain, 0, 64)
	return n, err == nil
}
