package rules

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/seeds"
)

// TestWildcards compares the index with trying every pattern in order, by
// regular expressions.
func TestWildcards(t *testing.T) {
	seed := seeds.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	word := func(letters string, max int) string {
		b := make([]byte, rnd.IntN(max+1))
		for i := range b {
			b[i] = letters[rnd.IntN(len(letters))]
		}
		return string(b)
	}
	found, decided := 0, 0
	for range 300 {
		var w wildcards[int]
		var all []*regexp.Regexp
		var texts []string
		for i := range 1 + rnd.IntN(60) {
			p := word("ab*", 5)
			if !isPattern(p) {
				p += "*"
			}
			if strings.Trim(p, "*") == "" {
				p = word("ab", 1) + "b" + p // one that fits all leaves nothing to decide
			}
			w.add(p, i)
			texts = append(texts, p)
			all = append(all, regexp.MustCompile("^"+strings.ReplaceAll(p, "*", ".*")+"$"))
		}
		for range 100 {
			s := word("ab", 8)
			want := -1
			for i, re := range all {
				if re.MatchString(s) {
					want = i
					break
				}
			}
			got, ok := w.find(s)
			if decided++; ok {
				found++
			} else {
				got = -1
			}
			if got != want {
				t.Fatalf("seed %d: %q in %q: got %d, want %d", seed, s, texts, got, want)
			}
		}
	}
	if found < decided/10 || found > decided*99/100 {
		t.Errorf("%d of %d matched: the test decides nothing", found, decided)
	}
}

func TestPattern(t *testing.T) {
	f := func(p, s string, want bool) {
		t.Helper()
		pat := newPattern(p)
		if got := pat.match(s); got != want {
			t.Errorf("%q matches %q: %t", p, s, got)
		}
	}
	f("*", "", true)
	f("**", "", true)
	f("a*a", "a", false)
	f("a*a", "aa", true)
	f("a*b*c", "abc", true)
	f("a*b*c", "acb", false)
	f("a*bc*c", "abc", false)
	f("*b*", "abc", true)
	f("*ab*ab*", "abab", true)
	f("*ab*ab*", "aab", false)
	f("ä*", "äb", true)
}

func TestValueSet(t *testing.T) {
	var v valueSet
	for _, s := range []string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::ffff:203.0.113.0/120", "exact", "wild-*", "/path/1", "fe80::1"} {
		if fault, usable := v.add(s); fault != "" || !usable {
			t.Errorf("%s: %s", s, fault)
		}
	}
	for s, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "192.0.2.7": true, "::ffff:192.0.2.7": true, "2001:db8:ffff::": true,
		"2001:0DB8::1": true, "2001:db9::1": false, "203.0.113.9": true, "exact": true, "exact2": false, "wild-": true,
		"/path/1": true, "/path/2": false, "fe80::1%eth0": true, "fe80:0::1": true, "1.2.3": false, "": false,
		"10.0.0.1 ": false, "010.0.0.1": false, strings.Repeat("1", 100): false,
		// A client named by its network: all of it is in, or it is not.
		"2001:db8:1:2::/64": true, "2001:db9:1:2::/64": false, "2001:d00::/24": false, "10.1.0.0/16": true, "10.1.0.0/": false,
	} {
		if got := v.has(s); got != want {
			t.Errorf("has %q: %t", s, got)
		}
	}
	if fault, usable := v.add("10.0.0.1/8"); fault == "" || !usable {
		t.Error("bits beyond the length are not told")
	}
	if fault, usable := v.add("10.0.0.0/33"); fault == "" || usable {
		t.Error("a bad prefix is taken")
	}
}

func TestParseRate(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got, err := ParseRate(in)
		text := got.String()
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != want {
			t.Errorf("%q: %s, want %s", in, text, want)
		}
		if again, err2 := ParseRate(text); err == nil && (err2 != nil || again != got) {
			t.Errorf("%q does not read back: %v", text, err2)
		}
	}
	f("100/minute", "100/minute")
	f("100 / 10 minutes", "100/10m")
	f("100 per minute", "100/minute")
	f("1_000/1h30m", "1000/1h30m")
	f("5/2 days", "5/2d")
	f("5/7d", "5/week")
	f("5/1d12h", "5/36h")
	f("5/s", "5/second")
	f("5/60s", "5/minute")
	f("5/250ms", "5/250ms")
	f("5/90s", "5/1m30s")
	f("20", "20")
	f("0/second", "0/second")
	f("5/", `error: "" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("5/1.5s", `error: "1.5s" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("/minute", `error: "/minute" is not a limit: write it like 100/minute or 100/10m`)
	f("5/0s", `error: "0s" is shorter than a microsecond`)
	f("5/5", `error: "5" has no unit: write 5s or 5m`)
	f("5/minuet", `error: unknown unit "minuet"`)
	f("5/3 minuets", `error: unknown unit "minuets"`)
	f("5/99999999999999999999s", `error: "99999999999999999999s" is not a duration: write it like 30s, 10m, 1h30m or 7d`)
	f("5/11y", `error: "11y" is longer than ten years`)
	f("5/9y9y", `error: "9y9y" is longer than ten years`)
	f("1e3/s", `error: "1e3/s" is not a limit: write it like 100/minute or 100/10m`)
	f("9223372036854775808/s", `error: "9223372036854775808" is more than can be counted: give at most 9007199254740992`)
}

func FuzzWildcards(f *testing.F) {
	f.Add("a*b,*c,d*", "axb")
	f.Fuzz(func(t *testing.T, patterns, s string) {
		var w wildcards[int]
		want := -1
		for i, p := range strings.Split(patterns, ",") {
			w.add(p+"*", i)
			if pat := newPattern(p + "*"); want < 0 && pat.match(s) {
				want = i
			}
		}
		got, ok := w.find(s)
		if !ok {
			got = -1
		}
		if got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}
