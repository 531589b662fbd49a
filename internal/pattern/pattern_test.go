package pattern

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
		var w Table[int]
		var all []*regexp.Regexp
		var texts []string
		for i := range 1 + rnd.IntN(60) {
			p := word("ab*", 5)
			if !Is(p) {
				p += "*"
			}
			if strings.Trim(p, "*") == "" {
				p = word("ab", 1) + "b" + p // one that fits all leaves nothing to decide
			}
			w.AddPattern(p, i)
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
			got, ok := w.FindFirst(s)
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

func FuzzWildcards(f *testing.F) {
	f.Add("a*b,*c,d*", "axb")
	f.Fuzz(func(t *testing.T, patterns, s string) {
		var w Table[int]
		want := -1
		for i, p := range strings.Split(patterns, ",") {
			w.AddPattern(p+"*", i)
			if pat := newPattern(p + "*"); want < 0 && pat.match(s) {
				want = i
			}
		}
		got, ok := w.FindFirst(s)
		if !ok {
			got = -1
		}
		if got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}
