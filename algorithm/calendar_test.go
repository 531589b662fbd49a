package algorithm_test

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // zones are the same on every machine

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// sameUnit reports whether a and b are in the same day, week, month or year of
// their zone.
func sameUnit(u params.Calendar, a, b time.Time) bool {
	ay, am, ad := a.Date()
	by, bm, bd := b.Date()
	switch u {
	case params.CalendarDay:
		return ay == by && am == bm && ad == bd
	case params.CalendarWeek:
		monday := func(t time.Time, y int, m time.Month, d int) time.Time {
			return time.Date(y, m, d-(int(t.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
		}
		return monday(a, ay, am, ad).Equal(monday(b, by, bm, bd))
	case params.CalendarMonth:
		return ay == by && am == bm
	}
	return ay == by
}

// TestCalendarWindowsEndWhereTheDateChanges compares the end of a window with
// that found by looking at the date every quarter of an hour: the zones chosen
// change their clocks at such times only.
func TestCalendarWindowsEndWhereTheDateChanges(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana",
		"Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu", "Antarctica/Troll",
		"Africa/Cairo", "Africa/Casablanca", "Asia/Tehran", "Asia/Amman", "Atlantic/Azores"}
	samples := map[params.Calendar]int{params.CalendarDay: 300, params.CalendarWeek: 30, params.CalendarMonth: 8, params.CalendarYear: 1}
	r := rand.New(rand.NewPCG(1, 1))
	for _, name := range zones {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for u, n := range samples {
			l := &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Period: 24 * time.Hour,
				Params: params.Params{Anchor: params.AnchorCalendar, Calendar: u, Location: loc}}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			for range n {
				// 2000 to 2037; at every second sample within a day of a change.
				now := time.Unix(946684800+r.Int64N(37*365*86400), 0).In(loc)
				if _, change := now.ZoneBounds(); r.IntN(2) == 0 && !change.IsZero() && change.Year() < 2038 {
					now = change.Add(time.Duration(r.Int64N(48)-24)*time.Hour + time.Duration(r.Int64N(3600))*time.Second)
				}
				want := now.Truncate(15 * time.Minute)
				for sameUnit(u, now, want) {
					want = want.Add(15 * time.Minute)
				}
				d := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Now: now.UnixMicro(), Cost: 1})
				if got := now.Add(d.ResetAfter); !got.Equal(want) {
					t.Errorf("unit %d of %s: the window of %s ends at %s, want %s", u, name, now, got, want)
				}
			}
		}
	}
}

// TestCalendarEnvelopeCountsShortDays: a period of 24 hours can touch three
// days if one has 23.
func TestCalendarEnvelopeCountsShortDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	f := func(period time.Duration, u params.Calendar, loc *time.Location, want int64) {
		t.Helper()
		l := &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Period: period,
			Params: params.Params{Anchor: params.AnchorCalendar, Calendar: u, Location: loc}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if l.Envelope != want {
			t.Errorf("period %s, unit %d in %v: envelope %d, want %d", period, u, loc, l.Envelope, want)
		}
	}
	const day = 24 * time.Hour
	f(day, params.CalendarDay, nil, 20)
	f(day, params.CalendarDay, berlin, 30)
	f(7*day, params.CalendarWeek, nil, 20)
	f(28*day, params.CalendarMonth, nil, 20)
	f(31*day, params.CalendarMonth, nil, 30)
	f(365*day, params.CalendarYear, nil, 20)
}
