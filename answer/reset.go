package answer

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names of the forms of a reset. All are rounded up, so that none points
// earlier than the truth.
const (
	// Delta is whole seconds from now: IETF drafts, Envoy, Kong.
	Delta = "delta"
	// Epoch is whole seconds since the Unix epoch: GitHub, Laravel.
	Epoch = "epoch"
	// EpochMS is whole milliseconds since the Unix epoch.
	EpochMS = "epoch_ms"
	// HTTPDate is "Tue, 14 Nov 2023 22:14:00 GMT".
	HTTPDate = "http_date"
	// ISO8601 is "2023-11-14T22:14:00Z": Atlassian.
	ISO8601 = "iso8601"
)

// style is a form of a reset, by its name.
type style string

// Styles lists the names that Options.Reset accepts.
func Styles() []string { return []string{Delta, Epoch, EpochMS, HTTPDate, ISO8601} }

// lastInstant is the last microsecond whose year has four digits.
const lastInstant int64 = 253_402_300_799_999_999

// appendInstant appends the instant that is wait microseconds after now, which must
// lie from 0 to lastInstant.
func (s style) appendInstant(b []byte, now, wait int64) []byte {
	if s == Delta {
		return appendInteger(b, divideUp(wait, 1_000_000))
	}
	at := lastInstant
	if wait < lastInstant-now {
		at = now + wait
	}
	switch s {
	case Epoch:
		return appendInteger(b, divideUp(at, 1_000_000))
	case EpochMS:
		return appendInteger(b, divideUp(at, 1_000))
	}
	t := time.Unix(min(divideUp(at, 1_000_000), lastInstant/1_000_000), 0).UTC()
	if s == HTTPDate {
		return t.AppendFormat(b, http.TimeFormat)
	}
	return t.AppendFormat(b, time.RFC3339)
}

// divideUp returns n/per, rounded up, for n of at least 0.
func divideUp(n, per int64) int64 {
	q := n / per
	if n%per > 0 {
		q++
	}
	return q
}

// Where numbers of one form end and those of the next begin.
const (
	leastEpoch   = 1_000_000_000   // seconds: 31 years, or the year 2001
	leastEpochMS = 100_000_000_000 // milliseconds: the year 1973
)

// readReset returns how many microseconds after now another's reset lies, in
// whatever form: numbers below 1e9 are seconds from now, below 1e11 seconds
// since the epoch, else milliseconds.
func readReset(s string, now int64) (wait int64, ok bool) {
	s = strings.Trim(s, " \t")
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if s[0] >= '0' && s[0] <= '9' && (len(s) < 5 || s[4] != '-') {
		whole, fraction, _ := strings.Cut(s, ".")
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || strings.Trim(fraction, "0123456789") != "" {
			return 0, false
		}
		switch {
		case n < leastEpoch:
			wait = n * 1_000_000
		case n < leastEpochMS:
			wait = n*1_000_000 - now
		case n < math.MaxInt64/1_000:
			wait = n*1_000 - now
		default:
			return 0, false
		}
		return max(wait, 0), true
	}
	var t time.Time
	var err error
	if len(s) > 4 && s[4] == '-' {
		t, err = time.Parse(time.RFC3339, s)
	} else {
		t, err = http.ParseTime(s)
	}
	if err != nil || t.Year() > 9999 {
		return 0, false
	}
	return max(t.UnixMicro()-now, 0), true
}

func ceilSeconds(d time.Duration) int64 { return divideUp(int64(d), int64(time.Second)) }
