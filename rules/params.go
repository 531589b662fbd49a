package rules

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/params"
)

// calendars are the windows of anchor: calendar, by their period.
var calendars = map[time.Duration]params.Calendar{
	period.Day: params.CalendarDay, period.Week: params.CalendarWeek,
	period.Month: params.CalendarMonth, period.Year: params.CalendarYear,
}

// formNamed returns the form of a word; the decoder takes no other.
func formNamed(word string) params.Form {
	for _, f := range []params.Form{params.Weighted, params.Lenient} {
		if f.String() == word {
			return f
		}
	}
	return params.Strict
}

// params sets what only some algorithms know.
func (b *builder) params(w *weir.Limit) {
	s := &b.s
	w.Burst = deref(s.Burst, 0)
	if s.Burst != nil && *s.Burst == 0 {
		b.wrong("burst", "leave it out", "burst must be at least 1")
	}
	w.Precision = int(min(deref(s.Precision, 0), 1<<30))
	w.Phase = time.Duration(deref(s.Phase, 0))
	w.MaxDelay = time.Duration(deref(s.MaxDelay, 0))
	w.Free = deref(s.Free, 0)
	w.MaxLog = deref(s.MaxLog, 0)
	if s.Form != nil {
		w.Form = formNamed(*s.Form)
	}
	b.anchor(w)
	if k := s.Sketch; k != nil {
		w.Sketch = params.SketchOptions{Expect: k.Expect, Width: int(min(k.Width, 1<<30)), Depth: int(min(k.Depth, 1<<20)),
			BloomBits: k.BloomBits, BloomHashes: int(min(k.BloomHashes, 1<<20)), Generations: int(min(k.Generations, 1<<20))}
		if k.Error != nil {
			w.Sketch.ErrorPermille = int64(*k.Error) * 10
		}
	}
}

// anchor sets where windows begin.
func (b *builder) anchor(w *weir.Limit) {
	s := &b.s
	switch deref(s.Anchor, "") {
	case "first_request":
		w.Anchor = params.AnchorFirst
	case "calendar":
		w.Anchor = params.AnchorCalendar
		unit, ok := calendars[w.Period]
		if w.Calendar = unit; !ok {
			b.wrong("anchor", "count per day, week, month or year", "anchor: calendar has no windows of %s", FormatPeriod(w.Period))
		}
	}
	if s.TimeZone == nil {
		return
	}
	if w.Anchor != params.AnchorCalendar {
		if _, own := where(b.layers, "time_zone"); own {
			b.wrong("time_zone", "add anchor: calendar, or leave it out", "time_zone is for anchor: calendar")
		}
		return
	}
	zone, err := time.LoadLocation(*s.TimeZone)
	if err != nil || *s.TimeZone == "Local" {
		b.wrong("time_zone", "write it like Europe/Berlin", "unknown time zone %q", *s.TimeZone)
		return
	}
	w.Location = zone
}
