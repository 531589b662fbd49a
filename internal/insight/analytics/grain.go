package analytics

import "time"

// Grain is how long a time the rows are of.
type Grain int64

// Grains, from the finest.
const (
	Minute Grain = 1
	Hour   Grain = 2
	Day    Grain = 3
)

var grains = [...]Grain{Minute, Hour, Day}

// Seconds returns how long a time a row is of.
func (g Grain) Seconds() int64 { return [...]int64{0, 60, 3600, 86400}[g] }

// String returns the word for it in answers.
func (g Grain) String() string { return [...]string{"", "minute", "hour", "day"}[g] }

// of returns the beginning of the row that an instant belongs to, in seconds since
// the Unix epoch. Days are those of UTC.
func (g Grain) of(t time.Time) int64 { return floor(t.Unix(), g.Seconds()) }

// floor returns the greatest multiple of step that is not above at.
func floor(at, step int64) int64 {
	r := at % step
	if r < 0 {
		r += step
	}
	return at - r
}

// ceil returns the least multiple of step that is not below at.
func ceil(at, step int64) int64 { return -floor(-at, step) }

// part is a part of a range by one grain.
type part struct {
	grain    Grain
	from, to int64
}

// divide divides a range into as few rows as there are: days where whole ones are
// in it, hours beside, minutes at the edges, none finer than the finest.
func divide(from, to int64, finest, coarsest Grain) []part {
	if from >= to {
		return nil
	}
	if coarsest <= finest {
		return []part{{finest, from, to}}
	}
	sec := coarsest.Seconds()
	first, end := ceil(from, sec), floor(to, sec)
	if first >= end {
		return divide(from, to, finest, coarsest-1)
	}
	out := divide(from, first, finest, coarsest-1)
	out = append(out, part{coarsest, first, end})
	return append(out, divide(end, to, finest, coarsest-1)...)
}
