package analytics

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configures a Service. What is zero is the database's default: see
// docs/reference/analytics.md.
type Options struct {
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
	// Now tells the time. Zero means time.Now.
	Now func() time.Time
	// Log is told when the database does not take events, and when it does again.
	// Zero means nobody is told.
	Log *slog.Logger
}

// maxAhead is how far ahead of the time an event can be told: clocks differ.
const maxAhead = time.Hour

// maxWaiting is how many events may wait for a transaction.
const maxWaiting = 20_000

func (opt *Options) complete(zero Options) error {
	const day = 24 * time.Hour
	opt.KeepMinutes = cmp.Or(opt.KeepMinutes, zero.KeepMinutes, 7*day)
	opt.KeepHours = cmp.Or(opt.KeepHours, zero.KeepHours, 90*day)
	opt.KeepDays = cmp.Or(opt.KeepDays, zero.KeepDays, 3*365*day)
	opt.KeepClientMinutes = cmp.Or(opt.KeepClientMinutes, zero.KeepClientMinutes, 2*day)
	opt.KeepClientHours = cmp.Or(opt.KeepClientHours, zero.KeepClientHours, 30*day)
	opt.KeepArrivals = cmp.Or(opt.KeepArrivals, zero.KeepArrivals, day)
	opt.KeepSeen = cmp.Or(opt.KeepSeen, zero.KeepSeen, 8*day)
	opt.MaxClients = cmp.Or(opt.MaxClients, zero.MaxClients, 1000)
	opt.MaxArrivals = cmp.Or(opt.MaxArrivals, zero.MaxArrivals, 1_000_000)
	opt.MaxBytes = cmp.Or(opt.MaxBytes, zero.MaxBytes, -1)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	shortest := min(opt.KeepMinutes, opt.KeepHours, opt.KeepDays, opt.KeepClientMinutes, opt.KeepClientHours, opt.KeepArrivals, opt.KeepSeen)
	switch {
	case shortest < time.Hour:
		return fmt.Errorf("rows are to be kept for %s: give at least an hour", shortest)
	case opt.KeepHours < opt.KeepMinutes || opt.KeepDays < opt.KeepHours || opt.KeepClientHours < opt.KeepClientMinutes:
		return errors.New("rows by a longer time are kept at least as long as those by a shorter one")
	case opt.KeepClientMinutes > opt.KeepMinutes || opt.KeepClientHours > opt.KeepHours:
		return errors.New("clients are kept at most as long as counts by the same time")
	case opt.MaxClients < 10 || opt.MaxClients > 100_000:
		return fmt.Errorf("%d clients of a limit: give 10 to 100000", opt.MaxClients)
	case opt.MaxArrivals < 0:
		return errors.New("the most arrivals must not be negative")
	}
	return nil
}

// kept says from when on rows are kept at an instant.
func (opt *Options) kept(now time.Time) kept {
	ago := func(g Grain, d time.Duration) int64 { return g.of(now.Add(-d)) }
	return kept{
		counts:   [...]int64{0, ago(Minute, opt.KeepMinutes), ago(Hour, opt.KeepHours), ago(Day, opt.KeepDays)},
		clients:  [...]int64{0, ago(Minute, opt.KeepClientMinutes), ago(Hour, opt.KeepClientHours), 0},
		arrivals: now.Add(-opt.KeepArrivals).Unix(),
		seen:     now.Add(-opt.KeepSeen).Unix(),
		until:    now.Add(maxAhead).Unix(),
	}
}
