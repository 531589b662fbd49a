package shed

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
)

// Rate is so many units in a period, written as in a rules file: "100/minute",
// "100/10m", "5 per 2 days", "1_000_000/day". The zero Rate is none.
type Rate struct {
	// Count is in units, 1 to weir.MaxCost.
	Count int64
	// Period is in whole microseconds, at most weir.MaxPeriod.
	Period time.Duration
}

// maxText bounds the text of one value, in bytes.
const maxText = 256

const day = 24 * time.Hour

// periods are the units of a period by their words. A month is 30 days and a
// year 365, as in rules files.
var periods = []struct {
	length time.Duration
	words  string // between spaces
}{
	{time.Microsecond, " us µs "},
	{time.Millisecond, " ms "},
	{time.Second, " second seconds s sec secs "},
	{time.Minute, " minute minutes m min mins "},
	{time.Hour, " hour hours h hr "},
	{day, " day days d "},
	{7 * day, " week weeks w "},
	{30 * day, " month months "},
	{365 * day, " year years y "},
}

var periodWords = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// ParseRate reads a rate. The count is at least 1.
func ParseRate(text string) (Rate, error) {
	if len(text) > maxText {
		return Rate{}, fmt.Errorf("%q is too long for a limit: write it like 100/minute", clip(text))
	}
	count, period, ok := strings.Cut(text, "/")
	if !ok {
		count, period, ok = strings.Cut(text, " per ")
	}
	n, err := parseCount(strings.TrimSpace(count))
	if err != nil || !ok {
		return Rate{}, fmt.Errorf("%q is not a limit: write it like 100/minute or 100/10m", clip(text))
	}
	if n < 1 || n > weir.MaxCost {
		return Rate{}, fmt.Errorf("%q: the count must be between 1 and 2^53; to switch a limiter off set its mode to off", clip(text))
	}
	p, err := parsePeriod(period)
	return Rate{Count: n, Period: p}, err
}

// String returns the rate as ParseRate reads it, empty for none.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	for i, w := range periodWords {
		if r.Period == periods[i+2].length {
			return fmt.Sprintf("%d/%s", r.Count, w)
		}
	}
	return fmt.Sprintf("%d/%s", r.Count, formatPeriod(r.Period))
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	got, err := ParseRate(string(text))
	if err == nil {
		*r = got
	}
	return err
}

// parseCount reads a whole number, which may have underscores.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || len(s) > 1 && s[0] == '0' || s[0] == '_' || s[0] == '+' {
		return 0, fmt.Errorf("%q is not a whole number", clip(s))
	}
	return n, nil
}

// parsePeriod reads a period: a unit, or numbers with units.
func parsePeriod(text string) (time.Duration, error) {
	if len(text) > maxText {
		return 0, fmt.Errorf("%q is too long for a duration: write it like 30s", clip(text))
	}
	rest := strings.TrimSpace(text)
	if u := unit(rest); u > 0 {
		return u, nil
	}
	var sum time.Duration
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		switch {
		case digits == 0 && !strings.ContainsFunc(rest, func(c rune) bool { return !unicode.IsLetter(c) }):
			return 0, fmt.Errorf("unknown unit %q: %s", clip(rest), cure(rest, periodWords))
		case err != nil:
			return 0, fmt.Errorf("%q is not a duration: write it like second, 30s, 10m, 1h30m or 7d", clip(text))
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		word := rest
		if end := strings.IndexAny(rest, "0123456789 "); end >= 0 {
			word = rest[:end]
		}
		u := unit(word)
		switch {
		case word == "":
			return 0, fmt.Errorf("%q has no unit: write %ss or %sm", clip(text), clip(text), clip(text))
		case u == 0:
			return 0, fmt.Errorf("unknown unit %q: %s", clip(word), cure(word, periodWords))
		case n > int64(weir.MaxPeriod/u) || sum+time.Duration(n)*u > weir.MaxPeriod:
			return 0, fmt.Errorf("%q is longer than ten years", clip(text))
		}
		sum += time.Duration(n) * u
		rest = strings.TrimLeft(rest[len(word):], " ")
	}
	if sum < time.Microsecond {
		return 0, fmt.Errorf("%q is shorter than a microsecond: write it like 30s", clip(text))
	}
	return sum, nil
}

// unit returns the length of a unit, 0 for a word that is none.
func unit(word string) time.Duration {
	if word == "" || strings.Contains(word, " ") {
		return 0
	}
	word = " " + strings.ToLower(word) + " "
	for _, p := range periods {
		if strings.Contains(p.words, word) {
			return p.length
		}
	}
	return 0
}

// formatPeriod returns d as parsePeriod reads it, without parts that are zero.
func formatPeriod(d time.Duration) string {
	if d%day == 0 && d > 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	var b strings.Builder
	for _, u := range []struct {
		length time.Duration
		word   string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if n := d / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.word)
			d -= n * u.length
		}
	}
	return b.String()
}
