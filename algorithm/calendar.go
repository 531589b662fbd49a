package algorithm

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// shortestWindow returns how short a calendar window of l can be, or zero if
// its unit is not known. No zone in use moves its clocks by more than two
// hours; UTC never does.
func shortestWindow(l *weir.Limit) time.Duration {
	const day = 24 * time.Hour
	var shortest time.Duration
	switch l.Calendar {
	case params.CalendarDay:
		shortest = day
	case params.CalendarWeek:
		shortest = 7 * day
	case params.CalendarMonth:
		shortest = 28 * day
	case params.CalendarYear:
		shortest = 365 * day
	default:
		return 0
	}
	if l.Location == nil || l.Location == time.UTC {
		return shortest
	}
	return shortest - 2*time.Hour
}

// calendarEnd returns the end of the calendar window that holds now, in
// microseconds.
func calendarEnd(l *weir.Limit, now int64) int64 {
	loc := l.Location
	if loc == nil {
		loc = time.UTC
	}
	year, month, day := time.UnixMicro(now).In(loc).Date()
	var end int64
	// One round, but for a day that a zone left out.
	for n := 1; end <= now; n++ {
		y, m, d := year, month, day
		switch l.Calendar {
		case params.CalendarDay:
			d += n
		case params.CalendarWeek:
			weekday := time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Weekday()
			d += 7*n - (int(weekday)+6)%7
		case params.CalendarMonth:
			m, d = m+time.Month(n), 1
		case params.CalendarYear:
			y, m, d = y+n, time.January, 1
		}
		end = dayStart(y, m, d, loc).UnixMicro()
	}
	return end
}

// calendarStart returns the start of the calendar window that holds now, in
// microseconds.
func calendarStart(l *weir.Limit, now int64) int64 {
	// No window is as long as this: the one that was open then is over.
	longer := [...]int64{params.CalendarDay: 2, params.CalendarWeek: 8, params.CalendarMonth: 32, params.CalendarYear: 367}
	start := calendarEnd(l, now-longer[l.Calendar]*int64(24*time.Hour/time.Microsecond))
	for {
		end := calendarEnd(l, start)
		if end > now {
			return start
		}
		start = end
	}
}

// dayStart returns the first instant of a day. That is not always midnight:
// clocks may be put forward over it, or back, so that it comes twice.
func dayStart(y int, m time.Month, d int, loc *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	ly, lm, ld := t.Date()
	if time.Date(ly, lm, ld, 0, 0, 0, 0, time.UTC).Before(want) {
		// Midnight is in a gap, and t was put before it: the gap is where the
		// day begins.
		if _, end := t.ZoneBounds(); !end.IsZero() {
			return end
		}
		return t
	}
	// Midnight may have been read as the second of two: try the offset that
	// was in force before the latest change.
	start, _ := t.ZoneBounds()
	if start.IsZero() {
		return t
	}
	_, offset := t.Zone()
	_, before := start.Add(-time.Second).Zone()
	first := t.Add(time.Duration(offset-before) * time.Second)
	if first.Before(start) && first.Day() == t.Day() {
		return first
	}
	return t
}
