package identity_test

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// accountPlan returns the plan of a route with an account in its path, counted as
// it is spelt or folded.
func accountPlan(t testing.TB, r *identity.Resolver, fold bool) *identity.Routes {
	t.Helper()
	rs, err := r.Routes([]identity.Route{{Path: "/login/{account}", Descriptors: []identity.Descriptor{
		{Entries: []identity.EntryFrom{{Key: "account", From: "param:account", Fold: fold}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// accountOf returns the account that a path is counted by, "" if it is refused.
func accountOf(t testing.TB, r *identity.Resolver, rs *identity.Routes, path string) string {
	t.Helper()
	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Method: "POST", Path: path})
	i := rs.Find(c)
	if i < 0 {
		return ""
	}
	var req weir.Request
	if err := rs.Plan(i).Fill(&req, c); err != nil {
		t.Fatal(err)
	}
	return strings.Clone(req.Descriptors[0].Entries[0].Value)
}

// TestFold: the spellings of a name that upstreams do not tell apart are one.
func TestFold(t *testing.T) {
	r := identitytest.New(t, identity.Options{Paths: identity.PathOptions{IgnoreCase: true}})
	folded, spelt := accountPlan(t, r, true), accountPlan(t, r, false)
	seen := map[string]bool{}
	for _, name := range []string{
		"victim", "VICTIM", "Victim", "victim ", " victim", "victim\u00a0", "\u3000victim", "vic\u200btim", "victim\u200d", "vic\u00adtim", "\ufeffvictim", "v\u2060ictim",
		"ｖｉｃｔｉｍ", "ＶＩＣＴＩＭ", "victim\ufe0f", "\u202evictim", "vict\u2170m", "𝐯𝐢𝐜𝐭𝐢𝐦", "ⓥⓘⓒⓣⓘⓜ", "victim\u115f", "victim\U000e0041", "\u2003victim\u2009",
	} {
		path := "/login/" + url.PathEscape(name)
		if got := accountOf(t, r, folded, path); got != "victim" {
			t.Errorf("%q is counted as %q", name, got)
		}
		seen[accountOf(t, r, spelt, path)] = true
	}
	if len(seen) < 15 {
		t.Errorf("without fold, %d spellings are counted apart: that tries little", len(seen))
	}
	for a, want := range map[string]string{
		"Straße": "strasse", "STRASSE": "strasse", "josé": "josé", "jose\u0301": "josé", "ﬁn": "fin", "ΣΊΣΥΦΟΣ": "σίσυφοσ", "a b": "a b", "a.b+c": "a.b+c", "%41": "%41", "\u200b": "\u200b", "ǆ": "dž",
		"İ": "i", // in a path without case, beside "i\u0307"
	} {
		if got := accountOf(t, r, folded, "/login/"+url.PathEscape(a)); got != want {
			t.Errorf("%q is counted as %q, want %q", a, got, want)
		}
	}
	for _, from := range []string{"query:account", "header:X-Account", "cookie:account"} {
		p, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: from, Fold: true}}}})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Acquire()
		c.Set(identity.Facts{Query: "account=+Vic%E2%80%8BTIM", Header: http.Header{"X-Account": {" VIC\u200bTIM"}, "Cookie": {"account= VICtim"}}})
		if got := fill(t, p, c); got != from+"=victim" {
			t.Error(got)
		}
		c.Release()
	}
	for _, from := range []string{"remote_address", "path", "user", "value:x", "unverified_jwt:sub"} {
		if _, err := r.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "remote_address"}}}, {Entries: []identity.EntryFrom{{From: from, Fold: true}}}}); err == nil {
			t.Errorf("%s is folded", from)
		}
	}
}

// TestFamilyFold: folding twice is folding once, and neither what cannot be seen,
// nor case, nor white space around a name makes another one of it.
func TestFamilyFold(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 2))
	r := identitytest.New(t, identity.Options{})
	rs := accountPlan(t, r, true)
	count := func(name string) string {
		return accountOf(t, r, rs, "/login/"+url.PathEscape(name))
	}
	letter := func() rune {
		for {
			c := rune(0x21 + rnd.IntN(0x2fff))
			if rnd.IntN(4) == 0 {
				c = rune(0x21 + rnd.IntN(0x5e))
			}
			if unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) {
				return c
			}
		}
	}
	hidden := []string{"\u200b", "\u200d", "\u00ad", "\u2060", "\ufe0f", "\u202e", "\ufeff", "\u180e", "\u3164"}
	spaces := []string{" ", "\u00a0", "\u3000", "\u2003"}
	many := 5_000
	if os.Getenv("WEIR_SOAK") == "1" {
		many = 1_000_000
	}
	for range many {
		var name []rune
		for range 1 + rnd.IntN(12) {
			name = append(name, letter())
		}
		plain := string(name)
		want := count(plain)
		if want == "" || strings.HasPrefix(want, "sha256:") {
			continue
		}
		if count("a"+plain) == "a" {
			continue // nothing of it can be seen: it is counted as it is
		}
		if again := count(want); again != want {
			t.Fatalf("%+q is counted as %+q, and that as %+q", plain, want, again)
		}
		at := rnd.IntN(len(name) + 1)
		for _, other := range []string{
			string(name[:at]) + hidden[rnd.IntN(len(hidden))] + string(name[at:]),
			spaces[rnd.IntN(len(spaces))] + plain, plain + spaces[rnd.IntN(len(spaces))],
		} {
			if got := count(other); got != want && !composes(name, at) {
				t.Fatalf("%+q is counted as %+q, %+q as %+q", plain, want, other, got)
			}
		}
		if ascii := strings.Map(onlyASCII, plain); count(strings.ToUpper(ascii)) != count(strings.ToLower(ascii)) {
			t.Fatalf("%q is counted by case", ascii)
		}
	}
}

// composes reports whether a mark stands first or at a place in name: there it joins what stands
// before, were it a space.
func composes(name []rune, at int) bool {
	return unicode.IsMark(name[0]) || at < len(name) && unicode.IsMark(name[at])
}

func onlyASCII(r rune) rune {
	if r >= 0x80 {
		return -1
	}
	return r
}
