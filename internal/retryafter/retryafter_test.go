package retryafter

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// fields are RateLimit fields, each with the seconds that it asks for; 0 where it states
// no wait or is malformed.
var fields = []struct {
	text    string
	seconds int64
}{
	{`"permin";r=0;t=30`, 30},
	{`"a";r=0;t=1,"b";r=0;t=2`, 2},
	{"\"a\";r=0;t=1\t, \t\"b\";r=3", 1},
	{``, 0},
	{` `, 0},
	{`"a"`, 0},
	{`"a";r`, 0},
	{`"a";r=0;t`, 0},
	{`"a";r=0;t=0`, 0},
	{`"a";r=0;t=1,`, 0},
	{`"a";r=0;t=1 `, 1},
	{` "a"; r=0;  t=1`, 1},
	{`"a" ;r=0;t=1`, 0},
	{`a;r=0;t=1`, 0},
	{`("a" "b");r=0;t=1`, 0},
	{`"a";r=-1;t=1`, 0},
	{`"a";r=0;t=-1`, 0},
	{`"a";r=0;t=1.5`, 0},
	{`"a";r=0;t=999999999999999`, 9223372036},
	{`"a";r=0;t=1000000000000000`, 0},
	{`"a";r=0;t=01`, 1},
	{`"a";r=1;r=0;t=9`, 9},
	{`"a";r;r=0;t=x;t=9`, 9},
	{`"a";r=0;r;t=9`, 0},
	{`"\"\\";r=0;t=1`, 1},
	{`"\a";r=0;t=1`, 0},
	{`"a";pk=:aGk=:;r=0;t=5`, 5},
	{`"a";pk=::;r=0;t=5`, 5},
	{`"a";x=:a:;r=0;t=1`, 0},
	{`"a";x=%"%ff";r=0;t=1`, 0},
	{`"a";x=?1;y=tok/en:;z="s";d=@-5;e=%"%c3%bc";r=0;t=5`, 5},
	{`"a";x=?2;r=0;t=1`, 0},
	{`"a";X=1;r=0;t=1`, 0},
	{`"a";*x;r=0;t=1`, 1},
	{`"a";x=%"%C3";r=0;t=1`, 0},
	{`"a";x=:a b:;r=0;t=1`, 0},
	{`"a";x=1.;r=0;t=1`, 0},
	{`"a";x=1.1234;r=0;t=1`, 0},
	{`"a";x=-;r=0;t=1`, 0},
	{"\"\x00\";r=0;t=1", 0},
	{`"ü";r=0;t=1`, 0},
	{`"a";x=123456789012.5;r=0;t=1`, 1},
	{`"a";x=1234567890123.5;r=0;t=1`, 0},
	{`"a";x=@1.5;r=0;t=1`, 0},
	{`"a";;r=0;t=1`, 0},
	{`"a";r=0;t=1;`, 0},
}

func TestExhausted(t *testing.T) {
	for _, f := range fields {
		got, ok := exhausted([]string{f.text})
		if want := time.Duration(f.seconds) * time.Second; got != want || ok != (want > 0) {
			t.Errorf("%s: got %s %v, want %s", f.text, got, ok, want)
		}
	}
	if _, ok := exhausted([]string{`"a";r=0;t=1`, strings.Repeat(" ", maxField)}); ok {
		t.Error("a field without end is read")
	}
	if _, ok := exhausted([]string{strings.Repeat(`"a";r=0;t=1,`, maxMembers) + `"a";r=0;t=1`}); ok {
		t.Error("a list without end is read")
	}
}

// FuzzExhausted: whatever a field holds, the wait is not negative, and with a further
// limit that is exhausted for longer it is that limit's.
func FuzzExhausted(f *testing.F) {
	for _, s := range fields {
		f.Add(s.text, "")
		f.Add(s.text, `"b";r=0;t=60`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		lines := []string{a, b}
		if b == "" {
			lines = lines[:1]
		}
		got, ok := exhausted(lines)
		if got < 0 || ok != (got > 0) {
			t.Errorf("%q: got %s %v", lines, got, ok)
		}
		const longest = 10_000_000_000
		if more, _ := exhausted(append(lines, `"z";r=0;t=10000000000`)); ok && more != seconds(longest) && len(a)+len(b) < maxField/2 && strings.Count(a+b, ",") < maxMembers/2 {
			t.Errorf("%q and a limit that waits for longer: %s", lines, more)
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
		wait, ok := Parse(&http.Response{StatusCode: 200, Header: h}, time.Unix(1_700_000_000, 0))
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

// FuzzParse: no answer makes anybody wait a negative time.
func FuzzParse(f *testing.F) {
	f.Add(429, "7", "", "", "")
	f.Add(503, "Sat, 01 Jan 2000 00:01:30 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", "0", `"a";r=0;t=1`)
	f.Add(429, "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1", "")
	f.Add(200, "99999999999999999999", "x", "-1", "")
	f.Fuzz(func(t *testing.T, status int, retry, date, age, limit string) {
		h := http.Header{"Retry-After": {retry}, "Date": {date}, "Age": {age}, "Ratelimit": {limit}}
		wait, ok := Parse(&http.Response{StatusCode: status, Header: h}, time.Unix(1_700_000_000, 0))
		if wait < 0 || ok != (wait > 0) {
			t.Errorf("%d %v: got %s %v", status, h, wait, ok)
		}
	})
}
