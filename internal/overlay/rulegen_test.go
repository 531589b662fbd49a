package overlay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// A key is known by the entries that lead to it.
func TestFamilyEntriesOfMeetTheKey(t *testing.T) {
	met := 0
	n := playCases(t, 300, func(g *ruleGen) {
		g.b.WriteString("domain: api\ndescriptors:\n")
		g.level("  ", 0, nil)
		set, err := load(t, g.b.String())
		if err != nil {
			return // two limits of one name, and the like
		}
		match := func(es []weir.Entry) []weir.Op {
			return set.Match(nil, &weir.Request{Domain: "api", Lease: "x", Descriptors: []weir.Descriptor{{Entries: es}}})
		}
		for range 20 {
			for _, op := range match(g.entries()) {
				if op.Role != weir.Enforce && op.Role != weir.Shadow || strings.Contains(op.Limit.Scope, "\x1f") {
					continue
				}
				domain, es, ok := set.EntriesOf(op.Limit, op.Key)
				if !ok && strings.Contains(g.b.String(), "share_threshold") {
					continue // what an override of values that share a counter is for, the key does not tell
				}
				if !ok || domain != "api" || !slices.ContainsFunc(match(es), func(o weir.Op) bool { return o.Limit.Scope == op.Limit.Scope && o.Key == op.Key }) {
					t.Errorf("%s\nentries %v (%t) of key %q of %s do not meet it", g.b.String(), es, ok, op.Key, op.Limit.Scope)
					return
				}
				met++
			}
		}
	})
	if met < n {
		t.Errorf("only %d keys were looked up", met)
	}
}

// playCases has play try n cases, or 4000 in the long form, and returns how many. It
// stops at the first that fails.
func playCases(t *testing.T, n int, play func(g *ruleGen)) int {
	t.Helper()
	if os.Getenv("WEIR_SOAK") == "1" {
		n = 4000
	}
	seed := seeds.Of(t)
	for i := range n {
		play(&ruleGen{rnd: rand.New(rand.NewPCG(seed, uint64(i)))})
		if t.Failed() {
			t.Fatalf("case %d", i)
		}
	}
	return n
}

// A decider decides by rules on a store with a clock of its own.
type decider struct {
	limiter *weir.Limiter
	store   *clocked.Store
}

func newDecider(t *testing.T, store *clocked.Store, r weir.Rules) *decider {
	t.Helper()
	l, err := weir.New(store, r, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &decider{l, store}
}

// outcome is what a decider says of a request.
type outcome struct {
	weir.Decision
	err error
}

// decide decides a copy of req, which stays as it is for other deciders.
func (d *decider) decide(t *testing.T, req *weir.Request) outcome {
	t.Helper()
	own := weir.Request{Domain: req.Domain, Lease: req.Lease, Priority: req.Priority, Descriptors: req.Descriptors}
	decision, err := d.limiter.Decide(t.Context(), &own)
	return outcome{decision, err}
}

// isLike reports whether both pass, or both are refused or fail.
func (o outcome) isLike(other outcome) bool {
	return o.Allowed() == other.Allowed() && (o.err == nil) == (other.err == nil)
}

func (o outcome) String() string { return fmt.Sprintf("%s (%v)", o.Decision, o.err) }

// pause lets the same few seconds go by for all deciders.
func (g *ruleGen) pause(all ...*decider) {
	d := time.Duration(g.rnd.IntN(4)) * time.Second
	for _, one := range all {
		one.store.Advance(d)
	}
}

// ruleGen makes rules files, one member of each override a line.
type ruleGen struct {
	rnd *rand.Rand
	b   strings.Builder
	// paths are lists of keys that lead to rules.
	paths [][]string
}

func (g *ruleGen) one(of ...string) string { return of[g.rnd.IntN(len(of))] }

func (g *ruleGen) chance(percent int) bool { return g.rnd.IntN(100) < percent }

func (g *ruleGen) limit() string {
	switch {
	case g.chance(50):
		return fmt.Sprintf("%d/%s", 1+g.rnd.IntN(5), g.one("second", "minute", "2m", "hour"))
	case g.chance(20):
		return fmt.Sprintf("{limit: %d, algorithm: concurrency, ttl: 1m}", 1+g.rnd.IntN(4))
	}
	extra := ""
	if g.chance(30) {
		extra += g.one(", cost: 2", ", name: some name", `, name: "1e3"`, ", name: no", `, name: "a: {b}, [c] #d"`, ", penalize: true", ", priority: 1")
	}
	if g.chance(30) {
		extra += g.one(", mode: shadow", ", mode: soft, exceed: 50%", ", rollout: 40%", ", ban: {after: 2, for: 1m}", ", headroom: [0, 2]", ", headroom: [0, 50%]")
	}
	extra += g.one("", ", algorithm: fixed_window", ", algorithm: fixed_window, phase: 1s", ", algorithm: token_bucket", ", algorithm: token_bucket, burst: 7", ", algorithm: sliding_log")
	if g.chance(20) {
		return fmt.Sprintf("{unit: %s, requests_per_unit: %d%s}", g.one("second", "minute"), 3+g.rnd.IntN(4), extra)
	}
	return fmt.Sprintf("{limit: %d/%s%s}", 3+g.rnd.IntN(4), g.one("minute", "5s"), extra)
}

// limits returns one limit or several.
func (g *ruleGen) limits() string {
	switch {
	case g.chance(10):
		return "unlimited"
	case g.chance(25):
		return fmt.Sprintf("[%d/minute, {limit: %d/hour, name: slow}]", 2+g.rnd.IntN(4), 4+g.rnd.IntN(6))
	}
	return g.limit()
}

var genValues = map[string][]string{
	"user": append([]string{"ann", "bob", "cle", "10.0.0.0/8", "a b", "yes"}, oddValues...), "ip": {"1.2.3.4", "1.2.3.5", "::1", "é"},
	"path": {"/login", "/search/a", "/search/b", "/x\"y"}, "tier": {"free", "pro", "ent-1", "none", "1e3", "~"},
	// A key and values that YAML reads as something else where they are not in quotes.
	"1e3: no": append([]string{"no", "1e3", "~", "null"}, oddValues...),
}

// oddValues have a meaning of their own in YAML, or may not stand there as they are.
var oddValues = []string{"no", "1e3", "~", "null", "true", "off", "0x1f", "012", "1_000", ".nan", "-.inf", "2026-01-02", "12:30:45", "=", "<<",
	"a: b", "a:b", "- x", "-", "? x", "#c", "x #c", "&a", "!t", "!!int 3", "%x", "@x", "`x`", "'q'", "''", "\"", "\\", "\\n", "{", "}", "[", "]", ",", "|", ">", ">-",
	" x", "x ", "  ", "日本", "ключ", "\U0001F600", "\u00a0", "\u00ad", "\u200b", "\u202e", "\u2028", "\ufeff", "\ufffd", "e\u0301", "\U0010fffe", "x\ty", "x\ny", "\u0085", ""}

func (g *ruleGen) rule(in string, key, value string, depth int, path []string) {
	line := func(format string, args ...any) { g.b.WriteString(in + "  " + fmt.Sprintf(format, args...) + "\n") }
	fmt.Fprintf(&g.b, "%s- key: %q\n", in, key)
	path = append(slices.Clone(path), key)
	g.paths = append(g.paths, path)
	if value != "" {
		line("value: %q", value)
		if strings.Contains(value, "*") && g.chance(50) {
			line("share_threshold: true")
		}
	}
	if g.chance(15) {
		line("algorithm: fixed_window")
	} else if g.chance(10) {
		line("cost: 1")
	}
	if g.chance(8) {
		line("shadow_mode: true")
	}
	switch g.rnd.IntN(5) {
	case 0:
	case 1:
		line("limits: [%d/minute, {limit: %d/hour, name: slow}]", 2+g.rnd.IntN(4), 4+g.rnd.IntN(6))
	default:
		line("limit: %s", g.limit())
	}
	if g.chance(30) {
		line("tiers:")
		line("  by: tier")
		line("  limits:")
		alike := g.chance(50)
		for _, tier := range []string{"free", "pro", "ent-*", "1e3", "~"} {
			if alike {
				line("    %q: %d/minute", tier, 1+g.rnd.IntN(9))
			} else {
				line("    %q: %s", tier, g.limits())
			}
		}
	}
	if g.chance(30) {
		line("overrides:")
		values := genValues[key]
		line("  %q: %s", g.one(values[0], values[1], values[len(values)/2]), g.limits())
		if g.chance(50) {
			line("  %q: %s", g.one("*a*", "1.*", "/s*"), g.limits())
		}
	}
	if g.chance(15) {
		line("deny: [%q]", genValues[key][3])
	}
	if depth < 2 && g.chance(45) {
		line("descriptors:")
		g.level(in+"    ", depth+1, path)
	}
}

func (g *ruleGen) level(in string, depth int, path []string) {
	keys := []string{"user", "ip", "path", "1e3: no"}
	g.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:1+g.rnd.IntN(2)] {
		some := false
		if g.chance(25) {
			g.rule(in, key, genValues[key][0], depth, path)
			some = true
		}
		if g.chance(25) {
			g.rule(in, key, g.one("/s*", "1.*", "b*"), depth, path)
			some = true
		}
		if !some || g.chance(60) {
			g.rule(in, key, "", depth, path)
		}
	}
}

// entries returns those of a descriptor that is likely to meet a rule.
func (g *ruleGen) entries() []weir.Entry {
	var es []weir.Entry
	for _, key := range g.paths[g.rnd.IntN(len(g.paths))] {
		values := genValues[key]
		es = append(es, weir.Entry{Key: key, Value: values[g.rnd.IntN(len(values))]})
	}
	if g.chance(40) {
		es = append(es, weir.Entry{Key: "tier", Value: g.one(genValues["tier"]...)})
	}
	return es
}

func load(t *testing.T, source string) (*limits.Set, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return rules.Load([]string{file}, rules.Options{})
}
