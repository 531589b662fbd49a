package rows

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Bounds say how long rows are kept and how many. What is zero is the database's default: see
// docs/reference/analytics.md.
type Bounds struct {
	// KeepMinutes, KeepHours and KeepDays are for how long counts are kept by minute,
	// hour and day; at least an hour, and each at least as long as the one before.
	// Zero means 7 days, 90 days and 3 years; a day each in memory.
	KeepMinutes, KeepHours, KeepDays time.Duration
	// KeepClientMinutes and KeepClientHours are for how long clients are kept by
	// minute and by hour, at least an hour and at most as long as counts. Zero means 2
	// days and 30 days; a day each in memory.
	KeepClientMinutes, KeepClientHours time.Duration
	// KeepArrivals is for how long arrivals of sampled keys are kept. Zero means a
	// day.
	KeepArrivals time.Duration
	// KeepSeen is for how long it is known which events were counted; an event that is
	// older is not counted. At least an hour. Zero means 8 days, 2 days in memory.
	KeepSeen time.Duration
	// MaxClients is how many clients of a limit are kept in a minute or an hour, 10 to
	// 100,000. Zero means 1000, 200 in memory.
	MaxClients int
	// MaxArrivals is how many arrivals are kept. Zero means a million, 50,000 in
	// memory.
	MaxArrivals int64
	// MaxBytes is how much the rows may take; above it clients by minute are
	// forgotten, then arrivals, then words and clients by hour, the oldest first.
	// Negative means as much as there is. Zero means 8 GiB in a file, 128 MiB in
	// memory, and no bound in PostgreSQL.
	MaxBytes int64
}

// CompleteWith fills in what is zero, by the database's defaults and then by those of all databases.
func (b *Bounds) CompleteWith(zero Bounds) error {
	const day = 24 * time.Hour
	b.KeepMinutes = cmp.Or(b.KeepMinutes, zero.KeepMinutes, 7*day)
	b.KeepHours = cmp.Or(b.KeepHours, zero.KeepHours, 90*day)
	b.KeepDays = cmp.Or(b.KeepDays, zero.KeepDays, 3*365*day)
	b.KeepClientMinutes = cmp.Or(b.KeepClientMinutes, zero.KeepClientMinutes, 2*day)
	b.KeepClientHours = cmp.Or(b.KeepClientHours, zero.KeepClientHours, 30*day)
	b.KeepArrivals = cmp.Or(b.KeepArrivals, zero.KeepArrivals, day)
	b.KeepSeen = cmp.Or(b.KeepSeen, zero.KeepSeen, 8*day)
	b.MaxClients = cmp.Or(b.MaxClients, zero.MaxClients, 1000)
	b.MaxArrivals = cmp.Or(b.MaxArrivals, zero.MaxArrivals, 1_000_000)
	b.MaxBytes = cmp.Or(b.MaxBytes, zero.MaxBytes, -1)
	shortest := min(b.KeepMinutes, b.KeepHours, b.KeepDays, b.KeepClientMinutes, b.KeepClientHours, b.KeepArrivals, b.KeepSeen)
	switch {
	case shortest < time.Hour:
		return fmt.Errorf("rows are to be kept for %s: give at least an hour", shortest)
	case b.KeepHours < b.KeepMinutes || b.KeepDays < b.KeepHours || b.KeepClientHours < b.KeepClientMinutes:
		return errors.New("rows by a longer time are kept at least as long as those by a shorter one")
	case b.KeepClientMinutes > b.KeepMinutes || b.KeepClientHours > b.KeepHours:
		return errors.New("clients are kept at most as long as counts by the same time")
	case b.MaxClients < 10 || b.MaxClients > 100_000:
		return fmt.Errorf("%d clients of a limit: give 10 to 100000", b.MaxClients)
	case b.MaxArrivals < 0:
		return errors.New("the most arrivals must not be negative")
	}
	return nil
}

// KeptAt says from when on rows are kept at an instant.
func (b *Bounds) KeptAt(now time.Time) Kept {
	ago := func(g Grain, d time.Duration) int64 { return g.FindStart(now.Add(-d)) }
	return Kept{
		Counts:   [...]int64{0, ago(Minute, b.KeepMinutes), ago(Hour, b.KeepHours), ago(Day, b.KeepDays)},
		Clients:  [...]int64{0, ago(Minute, b.KeepClientMinutes), ago(Hour, b.KeepClientHours), 0},
		Arrivals: now.Add(-b.KeepArrivals).Unix(),
		Seen:     now.Add(-b.KeepSeen).Unix(),
		Until:    now.Add(MaxAhead).Unix(),
	}
}

// Kept says from when on rows are kept, in seconds since the Unix epoch: by grain,
// and to when they may be told of.
type Kept struct {
	Counts, Clients [len(Grains) + 1]int64
	Arrivals, Seen  int64
	Until           int64
}

// MaxAhead is how far ahead of the time an event can be told: clocks differ.
const MaxAhead = time.Hour
