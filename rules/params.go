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

// setParams sets what only some algorithms know.
func (b *builder) setParams(w *weir.Limit) {
	s := &b.s
	w.Burst = valueOr(s.Burst, 0)
	if s.Burst != nil && *s.Burst == 0 {
		b.addSettingFault("burst", "leave it out", "burst must be at least 1")
	}
	w.Precision = int(min(valueOr(s.Precision, 0), 1<<30))
	w.Phase = time.Duration(valueOr(s.Phase, 0))
	w.MaxDelay = time.Duration(valueOr(s.MaxDelay, 0))
	w.Free = valueOr(s.Free, 0)
	w.MaxLog = valueOr(s.MaxLog, 0)
	if s.Form != nil {
		w.Form = formNamed(*s.Form)
	}
	b.setAnchor(w)
	if k := s.Sketch; k != nil {
		w.Sketch = params.SketchOptions{Expect: k.Expect, Width: int(min(k.Width, 1<<30)), Depth: int(min(k.Depth, 1<<20)),
			BloomBits: k.BloomBits, BloomHashes: int(min(k.BloomHashes, 1<<20)), Generations: int(min(k.Generations, 1<<20))}
		if k.Error != nil {
			w.Sketch.ErrorPermille = int64(*k.Error) * 10
		}
	}
}

// setAnchor sets where windows begin.
func (b *builder) setAnchor(w *weir.Limit) {
	s := &b.s
	switch valueOr(s.Anchor, "") {
	case "first_request":
		w.Anchor = params.AnchorFirst
	case "calendar":
		w.Anchor = params.AnchorCalendar
		unit, ok := calendars[w.Period]
		if w.Calendar = unit; !ok {
			b.addSettingFault("anchor", "count per day, week, month or year", "anchor: calendar has no windows of %s", FormatPeriod(w.Period))
		}
	}
	if s.TimeZone == nil {
		return
	}
	if w.Anchor != params.AnchorCalendar {
		if _, own := findSetting(b.layers, "time_zone"); own {
			b.addSettingFault("time_zone", "add anchor: calendar, or leave it out", "time_zone is for anchor: calendar")
		}
		return
	}
	zone, err := time.LoadLocation(*s.TimeZone)
	if err != nil || *s.TimeZone == "Local" {
		b.addSettingFault("time_zone", "write it like Europe/Berlin", "unknown time zone %q", *s.TimeZone)
		return
	}
	w.Location = zone
}
