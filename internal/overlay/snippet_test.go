package overlay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

const ends = 1_700_000_000_000_000 // 2023-11-14T22:13:20Z

// entryOf returns the entry of a kind for a value of user.
func entryOf(kind overlay.Kind, value string) overlay.Entry {
	return overlay.Entry{Kind: kind, Subject: overlay.Subject{Domain: "api", Entries: []weir.Entry{{Key: "user", Value: value}}, Limit: "permin"}, Algorithm: "token_bucket", Until: ends}
}

func TestSnippets(t *testing.T) {
	of := func(kind overlay.Kind, change func(e *overlay.Entry)) overlay.Entry {
		e := entryOf(kind, "u1")
		if change != nil {
			change(&e)
		}
		return e
	}
	const rule = `in domain "api", beside the key of the rule for "user" that has the limit "permin", or into its overrides; see docs/reference/rules.md#tiers-overrides-lists` + "\n"
	const limit, settings = `domain "api", rule "user", limit "permin": into its block, in the place of `, "; see docs/reference/rules.md#settings\n"
	const end = "# a file knows no end: take this out again at 2023-11-14T22:13:20Z\n"
	mode := func(m overlay.Mode, percent int64) overlay.Entry {
		return overlay.Entry{Kind: overlay.KindMode, Subject: overlay.Subject{Domain: "api", Rule: "user", Limit: "permin"}, Mode: m, Percent: percent}
	}
	for _, c := range []struct {
		e    overlay.Entry
		want string
	}{
		{of(overlay.Ban, nil), "# ban, to start from: " + rule + `overrides: {"u1": {limit: 0, mode: hard}}` + "\n" + end},
		{of(overlay.Allow, nil), "# allow, to start from: " + rule + `overrides: {"u1": unlimited}` + "\n" + end},
		{of(overlay.Override, func(e *overlay.Entry) { e.Count, e.Period, e.Until = 5000, 60e6, 0 }),
			"# override, to start from: " + rule + `overrides: {"u1": 5000/minute}` + "\n"},
		{of(overlay.Override, func(e *overlay.Entry) { e.Count, e.Period, e.Burst, e.Until = 5000, 60e6, 6000, 0 }),
			"# override, to start from: " + rule + `overrides: {"u1": {limit: 5000/minute, algorithm: token_bucket, burst: 6000}}` + "\n"},
		{of(overlay.BanDomain, nil), `# ban_domain, to start from: in domain "api", beside domain:, or into its deny; see docs/reference/rules.md#tiers-overrides-lists` + "\n" +
			`deny: {"user": ["u1"]}` + "\n" + end},
		{mode(overlay.Shadow, 0), "# mode, to start from: " + limit + "its mode" + settings + "mode: shadow\n"},
		{mode(overlay.Enforced, 10), "# mode, to start from: " + limit + "its rollout and of mode: shadow" + settings + "rollout: 10%\n"},
		{mode(overlay.Enforced, 100), "# mode, to start from: " + limit + "its mode and rollout" + settings + "mode: hard\n"},
		{mode(overlay.Off, 0), "# mode, to start from: " + limit + "all but its name" + settings + "unlimited: true\n"},
		{of(overlay.Ban, func(e *overlay.Entry) { e.Entries = append(e.Entries, weir.Entry{Key: "path", Value: "/"}) }),
			"# no lines of a rules file for this ban: the key is of several entries, and lines are about one value; see docs/reference/rules.md#tiers-overrides-lists\n"},
	} {
		if got := c.e.Snippet(); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}

// A mode of several limits is one snippet, with its line once.
func TestModeSnippetOfSeveralLimits(t *testing.T) {
	got := overlay.ModeSnippet([]overlay.ModeView{
		{Name: limits.Name{Domain: "api", Rule: "user", Limit: "a"}, Mode: overlay.Enforced, Percent: new(int64(5))}, {Name: limits.Name{Domain: "api", Rule: "user", Limit: "b"}, Mode: overlay.Enforced, Percent: new(int64(5))},
	})
	if strings.Count(got, "rollout: 5%") != 1 || !strings.Contains(got, `limit "a"; domain "api", rule "user", limit "b"`) || overlay.ModeSnippet(nil) != "" {
		t.Error(got)
	}
}

// The pages that snippets name have the section.
func TestSnippetsNamePages(t *testing.T) {
	for _, e := range []overlay.Entry{entryOf(overlay.Ban, "u1"), {Kind: overlay.KindMode, Mode: overlay.Shadow}} {
		comment, _, _ := strings.Cut(e.Snippet(), "\n")
		file, section, _ := strings.Cut(comment[strings.LastIndex(comment, " ")+1:], "#")
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			title := strings.TrimLeft(line, "#")
			return title != line && strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(title[1:]), ",", ""), " ", "-") == section
		}) {
			t.Errorf("%s has no section %s", file, section)
		}
	}
}

// hostileText returns text that YAML, a comment or a rules file could read as something else.
func hostileText(g *ruleGen) string {
	var b strings.Builder
	for range 1 + g.rnd.IntN(3) {
		switch g.rnd.IntN(6) {
		case 0, 1, 2:
			b.WriteString(oddValues[g.rnd.IntN(len(oddValues))])
		case 3:
			b.WriteRune(rune(g.rnd.IntN(unicode.MaxRune + 1)))
		case 4:
			b.WriteString(g.one("*", "\xff", "\x00", "\n", "\r", "\u2029", "${x}", "{{", "%d", "\"}]", "\n# x\ndomain: b", "unlimited"))
		default:
			b.WriteString(strings.Repeat(g.one("a", "\u00ad", "\U0010fffe", "é", "\\"), g.rnd.IntN(700)))
		}
	}
	return b.String()
}

// Whatever the names and values hold, a snippet is YAML that holds the very value, loads in
// a rules file, and is kept whole; of what no file holds it is a comment.
func TestFamilySnippetsHoldTheValue(t *testing.T) {
	seed, lines, said := seeds.Of(t), 0, 0
	for i := range 4000 {
		g := &ruleGen{rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		e := entryOf([]overlay.Kind{overlay.Ban, overlay.BanDomain, overlay.Allow, overlay.Override}[g.rnd.IntN(4)], hostileText(g))
		e.Domain, e.Limit = hostileText(g), hostileText(g)
		if e.Kind == overlay.BanDomain && g.chance(50) {
			key := "k" + hostileText(g)
			e.Entries[0].Key = key[:min(len(key), 300)] // names of a limit have a bound of their own
		}
		if e.Kind == overlay.Override {
			e.Algorithm = g.one("token_bucket", "fixed_window", "concurrency", "sliding_window")
			e.Count, e.Period = 1+g.rnd.Int64N(1000), []int64{1_000_000, 1_500_000, 60_000_000, 90_000_000, 3_600_000_000}[g.rnd.IntN(5)]
			if e.Algorithm == "token_bucket" && g.chance(50) {
				e.Burst = 1 + g.rnd.Int64N(1000)
			}
		}
		p := e.Entries[0]
		text := e.Snippet()
		if len(text) > 4096 || !utf8.ValidString(text) {
			t.Fatalf("case %d: %d bytes: %q", i, len(text), text)
		}
		var got struct {
			Overrides map[string]yaml.Node
			Deny      map[string][]string
		}
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("case %d: %q: %v", i, text, err)
		}
		if len(got.Overrides)+len(got.Deny) == 0 {
			said++
			if strings.Trim(text[:len(text)-1], "\n") == "" || strings.Contains(text[:len(text)-1], "\n") || text[0] != '#' {
				t.Errorf("case %d: more than a comment: %q", i, text)
			}
			if isPlain(p.Key) && isPlain(p.Value) {
				t.Errorf("case %d: %q has no lines: %s", i, p, text)
			}
			continue
		}
		lines++
		if _, ok := got.Overrides[p.Value]; e.Kind != overlay.BanDomain && (!ok || len(got.Overrides) != 1) ||
			e.Kind == overlay.BanDomain && !slices.Equal(got.Deny[p.Key], []string{p.Value}) {
			t.Errorf("case %d: %q does not hold %q", i, text, p)
		}
		source := "domain: api\ndescriptors:\n  - key: user\n    limit: {name: permin, limit: 5/minute}\n    " + strings.ReplaceAll(text, "\n", "\n    ")
		if e.Kind == overlay.BanDomain {
			source = "domain: api\n" + text + "descriptors:\n  - {key: user, limit: 5/minute}\n"
		}
		set, err := rules.Parse("rules.yaml", []byte(source), rules.Options{})
		if err != nil {
			t.Fatalf("case %d: %s\n%v", i, source, err)
		}
		checkMeets(t, set, &e, source)
	}
	if lines < 500 || said < 100 {
		t.Errorf("%d have lines, of %d a comment says why not: too few", lines, said)
	}
}

// isPlain reports whether a file certainly holds s.
func isPlain(s string) bool {
	return s != "" && len(s) < 300 && utf8.ValidString(s) && !strings.Contains(s, "*") && !strings.ContainsFunc(s, unicode.IsControl)
}

// checkMeets checks what a request with the entry meets by rules with its snippet.
func checkMeets(t *testing.T, set *limits.Set, e *overlay.Entry, source string) {
	t.Helper()
	ops := set.Match(nil, &weir.Request{Domain: "api", Lease: "x", Descriptors: []weir.Descriptor{{Entries: e.Entries}}})
	met := "nothing"
	if len(ops) > 0 {
		met = fmt.Sprintf("%d at %s", ops[0].Limit.Count, ops[0].Limit.Period)
		if ops[0].Role == weir.Deny {
			met = "refused"
		}
	}
	want := map[overlay.Kind]string{overlay.Ban: "refused", overlay.BanDomain: "refused", overlay.Allow: "nothing"}[e.Kind]
	if e.Kind == overlay.Override {
		want = fmt.Sprintf("%d at %s", e.Count, time.Duration(e.Period)*time.Microsecond)
	}
	if met != want {
		t.Errorf("%s\n%s meets %s, want %s", source, e.Entries, met, want)
	}
}
