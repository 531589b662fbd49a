package period_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

const day = period.Day

func TestParse(t *testing.T) {
	f := func(text string, want time.Duration, wantErr string) {
		t.Helper()
		got, err := period.Parse(text)
		if got != want || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%q: got %s, %v; want %s, %s", text, got, err, want, wantErr)
		}
	}
	f("minute", time.Minute, "")
	f("Minutes", time.Minute, "")
	f(" 1h30m ", 90*time.Minute, "")
	f("1 h 30 mins", 90*time.Minute, "")
	f("2 weeks", 14*day, "")
	f("month", 30*day, "")
	f("250ms", 250*time.Millisecond, "")
	f("7µs", 7*time.Microsecond, "")
	f("10y", 10*period.Year, "")
	f("11y", 0, "longer than ten years")
	f("9y9y", 0, "longer than ten years")
	f("0s", 0, "shorter than a microsecond")
	f("", 0, `"" is not a duration`)
	f("5", 0, `"5" has no unit: write 5s or 5m`)
	f("1.5s", 0, "is not a duration")
	f("-1s", 0, "is not a duration")
	f("minuet", 0, `unknown unit "minuet"`)
	f("3 minuets", 0, `unknown unit "minuets"`)
	f(strings.Repeat("1s", 200), 0, "too long")
	f(strings.Repeat("x", 200), 0, `xxx..."`)

	_, err := period.Parse("3 minuets")
	if unit, ok := errors.AsType[*period.UnitError](err); !ok || unit.Word != "minuets" {
		t.Errorf("got %#v, want the unit that is none", err)
	}
}

func TestFormat(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "week": 7 * day, "year": 365 * day,
		"2d": 2 * day, "36h": 36 * time.Hour, "1m30s": 90 * time.Second, "1s500ms": 1500 * time.Millisecond,
		"1ms1us": 1001 * time.Microsecond, "10m": 10 * time.Minute, "1h1us": time.Hour + time.Microsecond,
	} {
		if got := period.Format(d); got != want {
			t.Errorf("%d is written %s, want %s", d, got, want)
		}
		if back, err := period.Parse(want); err != nil || back != d {
			t.Errorf("%s is read as %s, %v", want, back, err)
		}
	}
	if got := period.Format(0); got != "0s" {
		t.Errorf("none is written %q", got)
	}
}

// FuzzParseRate writes what was read and reads it again.
func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"100/minute", "100/10m", "5 per 2 days", "5 / 2 days", "1_000/d", "1/1h30m", "1/250ms", "1/µs", "20", "0/s",
		"1/minuet", "1/", "/s", "01/s", "+1/s", "_1/s", "9007199254740993/s", "1/99999999w", "1/0s", "1/ 5", "1/M", "1/1s1s", "1/ms5", "1/s s",
		"1 per s", "1/1.5s", "-1/s", strings.Repeat("1", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := period.ParseRate(s)
		if err != nil {
			if r.Period != 0 || len(err.Error()) > 1000 {
				t.Errorf("%q: %s with the error %v", s, r.Period, err)
			}
			return
		}
		if r.Period < 0 || r.Period > weir.MaxPeriod || r.Period%time.Microsecond != 0 {
			t.Errorf("%q: a period of %s", s, r.Period)
		}
		if again, err := period.ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%q is written %s, which is read as %s, %v", s, r, again, err)
		}
	})
}
