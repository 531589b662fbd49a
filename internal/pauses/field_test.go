package pauses

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// other reads what exhausted does by another's parser.
func other(lines []string) (time.Duration, bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > maxMembers {
		return 0, false
	}
	longest, found := int64(0), false
	for _, m := range list {
		i, ok := m.(httpsfv.Item)
		if !ok {
			return 0, false
		}
		if _, ok := i.Value.(string); !ok {
			return 0, false
		}
		number := func(key string, unset int64) int64 {
			v, ok := i.Params.Get(key)
			if !ok {
				return unset
			}
			if n, ok := v.(int64); ok {
				return n
			}
			return math.MinInt64
		}
		r, t := number("r", 1), number("t", 0)
		if _, ok := i.Params.Get("r"); !ok || r < 0 || t < 0 {
			return 0, false
		}
		if r == 0 && t > 0 {
			longest, found = max(longest, t), true
		}
	}
	return seconds(longest), found
}

var fields = []string{
	`"permin";r=0;t=30`, `"a";r=0;t=1,"b";r=0;t=2`, "\"a\";r=0;t=1\t, \t\"b\";r=3", ``, ` `, `"a"`, `"a";r`, `"a";r=0;t`, `"a";r=0;t=0`,
	`"a";r=0;t=1,`, `"a";r=0;t=1 `, ` "a"; r=0;  t=1`, `"a" ;r=0;t=1`, `a;r=0;t=1`, `("a" "b");r=0;t=1`, `"a";r=-1;t=1`, `"a";r=0;t=-1`,
	`"a";r=0;t=1.5`, `"a";r=0;t=999999999999999`, `"a";r=0;t=1000000000000000`, `"a";r=0;t=01`, `"a";r=1;r=0;t=9`, `"a";r;r=0;t=x;t=9`, `"a";r=0;r;t=9`, `"\"\\";r=0;t=1`, `"\a";r=0;t=1`,
	`"a";pk=:aGk=:;r=0;t=5`, `"a";pk=::;r=0;t=5`, `"a";x=:a:;r=0;t=1`, `"a";x=%"%ff";r=0;t=1`, `"a";x=?1;y=tok/en:;z="s";d=@-5;e=%"%c3%bc";r=0;t=5`, `"a";x=?2;r=0;t=1`, `"a";X=1;r=0;t=1`,
	`"a";*x;r=0;t=1`, `"a";x=%"%C3";r=0;t=1`, `"a";x=:a b:;r=0;t=1`, `"a";x=1.;r=0;t=1`, `"a";x=1.1234;r=0;t=1`, `"a";x=-;r=0;t=1`, "\"\x00\";r=0;t=1", `"ü";r=0;t=1`,
	`"a";x=123456789012.5;r=0;t=1`, `"a";x=1234567890123.5;r=0;t=1`, `"a";x=@1.5;r=0;t=1`, `"a";;r=0;t=1`, `"a";r=0;t=1;`,
}

func TestExhausted(t *testing.T) {
	for _, f := range fields {
		got, ok := exhausted([]string{f})
		if want, wantOK := other([]string{f}); got != want || ok != wantOK {
			t.Errorf("%s: got %s %v, another's parser says %s %v", f, got, ok, want, wantOK)
		}
	}
	if _, ok := exhausted([]string{`"a";r=0;t=1`, strings.Repeat(" ", maxField)}); ok {
		t.Error("a field without end is read")
	}
	if _, ok := exhausted([]string{strings.Repeat(`"a";r=0;t=1,`, maxMembers) + `"a";r=0;t=1`}); ok {
		t.Error("a list without end is read")
	}
}

// FuzzExhausted: another's parser reads the same, of one line or two.
func FuzzExhausted(f *testing.F) {
	for _, s := range fields {
		f.Add(s, "")
		f.Add(s, `"b";r=0;t=60`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		lines := []string{a, b}
		if b == "" {
			lines = lines[:1]
		}
		got, ok := exhausted(lines)
		if len(a)+len(b)+2 > maxField {
			return
		}
		// It does not take Byte Sequences without padding, as it should.
		want, wantOK := other(lines)
		if (got != want || ok != wantOK) && (wantOK || !strings.Contains(a+b, ":")) {
			t.Errorf("%q: got %s %v, another's parser says %s %v", lines, got, ok, want, wantOK)
		}
		if got < 0 || !ok && got != 0 {
			t.Errorf("%q: got %s %v", lines, got, ok)
		}
	})
}

func TestFieldsOfEarlierDrafts(t *testing.T) {
	f := func(remaining, reset, list string, want time.Duration) {
		t.Helper()
		h := http.Header{}
		for name, v := range map[string]string{"RateLimit-Remaining": remaining, "RateLimit-Reset": reset, "RateLimit": list} {
			if v != "" {
				h.Set(name, v)
			}
		}
		wait, ok := Told(&http.Response{StatusCode: 200, Header: h}, time.Unix(1_700_000_000, 0))
		if ok != (want > 0) || ok && wait != want {
			t.Errorf("%v: got %s %v, want %s", h, wait, ok, want)
		}
	}
	f("0", "30", "", 30*time.Second)
	f("1", "30", "", 0)
	f("0", "0", "", 0)
	f("0", "", "", 0)
	f("", "30", "", 0)
	f("0", "-1", "", 0)
	f("0", "30", `"a";r=0;t=5`, 5*time.Second)
}

// FuzzTold: no answer makes anybody wait a negative time.
func FuzzTold(f *testing.F) {
	f.Add(429, "7", "", "", "")
	f.Add(503, "Sat, 01 Jan 2000 00:01:30 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", "0", `"a";r=0;t=1`)
	f.Add(429, "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1", "")
	f.Add(200, "99999999999999999999", "x", "-1", "")
	f.Fuzz(func(t *testing.T, status int, retry, date, age, limit string) {
		h := http.Header{"Retry-After": {retry}, "Date": {date}, "Age": {age}, "Ratelimit": {limit}}
		wait, ok := Told(&http.Response{StatusCode: status, Header: h}, time.Unix(1_700_000_000, 0))
		if wait < 0 || ok != (wait > 0) {
			t.Errorf("%d %v: got %s %v", status, h, wait, ok)
		}
	})
}

// TestPausesAreBounded: however many hosts ask to be left alone. Those that
// would be free first are.
func TestPausesAreBounded(t *testing.T) {
	var p Set
	now := time.Now()
	const hosts = maxPaused + 50
	for i := range hosts {
		p.Add(fmt.Sprint(i), now, time.Duration(i+1)*time.Second)
	}
	if len(p.until) != maxPaused || p.Left("0", now) != 0 || p.Left(fmt.Sprint(hosts-1), now) != hosts*time.Second {
		t.Errorf("%d are kept, the first for %s", len(p.until), p.Left("0", now))
	}
	p.Add("twice", now, 3*time.Hour)
	p.Add("twice", now, time.Second)
	if left := p.Left("twice", now); left != 3*time.Hour {
		t.Errorf("a later answer made the pause %s", left)
	}
	p.Add("late", now.Add(4*time.Hour), time.Second)
	if len(p.until) != 1 {
		t.Errorf("%d are kept when all but one are over", len(p.until))
	}
	if p.Left("late", now.Add(5*time.Hour)) != 0 || len(p.until) != 0 {
		t.Error("what is over is kept")
	}
}
