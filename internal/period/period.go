// Package period reads and writes how often and how long: "100/minute", "1h30m",
// "2 weeks". It is the one grammar of rules files, of limits in words and of load
// shedding.
package period

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spell"
)

// Lengths that package time has no name for. Months are 30 days and years 365,
// as in envoyproxy/ratelimit.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = 30 * Day
	Year  = 365 * Day
)

// Units are the names of periods, in order of length.
var Units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// lengths gives the length of a period by its name.
var lengths = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": Day, "week": Week, "month": Month, "year": Year,
}

// short are the units of a duration such as 1h30m.
var short = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute,
	"h": time.Hour, "hr": time.Hour, "d": Day, "w": Week, "y": Year,
}

// maxText bounds the text of a period or a rate, in bytes.
const maxText = 256

// Length returns the length of one of Units, in upper or lower case.
func Length(name string) (time.Duration, bool) {
	d, ok := lengths[strings.ToLower(name)]
	return d, ok
}

// Unit returns the length of the unit that word names, short or in full, in
// either number.
func Unit(word string) (time.Duration, bool) {
	word = strings.ToLower(word)
	if u, ok := lengths[strings.TrimSuffix(word, "s")]; ok {
		return u, true
	}
	u, ok := short[word]
	return u, ok
}

// UnitError is the error of a unit that is none.
type UnitError struct{ Word string }

// Error implements error.
func (e *UnitError) Error() string { return fmt.Sprintf("unknown unit %q", clip(e.Word)) }

// Cured returns err, of a unit that is none with what to write instead.
func Cured(err error) error {
	if unit, ok := errors.AsType[*UnitError](err); ok {
		return fmt.Errorf("%w: %s", err, spell.Cure(unit.Word, Units))
	}
	return err
}

// Parse reads a period or a duration: "10m", "1h30m", "7d", "2 weeks", "minute".
// It is at least a microsecond and at most weir.MaxPeriod. The error may be a
// *UnitError.
func Parse(s string) (time.Duration, error) {
	if len(s) > maxText {
		return 0, fmt.Errorf("%q is too long for a duration: write it like 30s, 10m, 1h30m or 7d", clip(s))
	}
	rest := strings.TrimSpace(s)
	if u, ok := Unit(rest); ok {
		return u, nil
	}
	if rest == "" {
		return 0, notDuration(s)
	}
	var sum time.Duration
	for rest != "" {
		i := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if i == 0 && isWord(rest) {
			return 0, &UnitError{rest}
		}
		n, err := strconv.ParseInt(rest[:i], 10, 64)
		if err != nil {
			return 0, notDuration(s)
		}
		rest = strings.TrimLeft(rest[i:], " ")
		word := rest
		if end := strings.IndexAny(rest, "0123456789 "); end >= 0 {
			word = rest[:end]
		}
		u, ok := Unit(word)
		switch {
		case word == "":
			return 0, fmt.Errorf("%q has no unit: write %ss or %sm", clip(s), clip(s), clip(s))
		case !ok && isWord(word):
			return 0, &UnitError{word}
		case !ok:
			return 0, notDuration(s)
		case n > int64(weir.MaxPeriod/u) || sum+time.Duration(n)*u > weir.MaxPeriod:
			return 0, fmt.Errorf("%q is longer than ten years", clip(s))
		}
		sum += time.Duration(n) * u
		rest = strings.TrimLeft(rest[len(word):], " ")
	}
	if sum < time.Microsecond {
		return 0, fmt.Errorf("%q is shorter than a microsecond", clip(s))
	}
	return sum, nil
}

func notDuration(s string) error {
	return fmt.Errorf("%q is not a duration: write it like 30s, 10m, 1h30m or 7d", clip(s))
}

func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsLetter(c) })
}

// Format returns d as Parse reads it, without parts that are zero: "minute",
// "10m", "7d", "1s500ms". What is below a microsecond is left out.
func Format(d time.Duration) string {
	for _, name := range Units {
		if lengths[name] == d {
			return name
		}
	}
	if d%Day == 0 && d > 0 {
		return fmt.Sprintf("%dd", d/Day)
	}
	var b strings.Builder
	for _, unit := range []string{"h", "m", "s", "ms", "us"} {
		if n := d / short[unit]; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit)
			d -= n * short[unit]
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// Rate is so many units in a period. The period is zero where there is none.
type Rate struct {
	Count  int64
	Period time.Duration
}

// String returns the rate as ParseRate reads it: "100/10m".
func (r Rate) String() string { return FormatRate(r.Count, r.Period) }

// ParseRate reads "100/minute", "100/10m", "5 / 2 days" or "100 per minute". The
// count may be 0 and may have underscores. The period is zero where there is
// none, as in "20". The error may be a *UnitError.
func ParseRate(s string) (r Rate, err error) {
	if len(s) > maxText {
		return r, fmt.Errorf("%q is too long for a limit: write it like 100/minute", clip(s))
	}
	before, after, ok := strings.Cut(s, "/")
	if !ok {
		before, after, ok = strings.Cut(s, " per ")
	}
	r.Count, err = Count(strings.TrimSpace(before))
	if errors.Is(err, errLarge) {
		return Rate{}, err
	}
	if err != nil {
		return Rate{}, fmt.Errorf("%q is not a limit: write it like 100/minute or 100/10m", clip(s))
	}
	if ok {
		r.Period, err = Parse(after)
	}
	return r, err
}

// FormatTTL is Format for how long something lives: "1m", where a rate has minute.
func FormatTTL(d time.Duration) string {
	text := Format(d)
	if _, named := Length(text); named {
		text = strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
	}
	return text
}

// FormatRate returns a rate as ParseRate reads it: "100/10m".
func FormatRate(count int64, period time.Duration) string {
	if period == 0 {
		return strconv.FormatInt(count, 10)
	}
	return fmt.Sprintf("%d/%s", count, Format(period))
}

var errLarge = fmt.Errorf("is more than can be counted: give at most %d", int64(weir.MaxCost))

// Count reads a number of units in decimal, with underscores if need be.
func Count(s string) (int64, error) {
	if len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%q begins with 0, which YAML 1.1 reads as octal: leave the 0 out", clip(s))
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q %w", clip(s), errLarge)
	}
	if err != nil || strings.HasPrefix(s, "_") || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a whole number", clip(s))
	}
	return n, nil
}

// clip bounds what an error repeats of a text.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
