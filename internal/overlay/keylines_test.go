package overlay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
)

// The lines that are printed for a change of one key, pasted where their comment says,
// decide as the node does that has the change laid over its rules.
func TestFamilyKeyLinesDoWhatWasDone(t *testing.T) {
	var pasted, said int
	n := playCases(t, 400, func(g *ruleGen) {
		switch g.compare(t) {
		case "pasted":
			pasted++
		case "said":
			said++
		}
	})
	t.Logf("%d were pasted; of %d it is said that no lines do it", pasted, said)
	if pasted < n/3 {
		t.Errorf("only %d of %d changes have lines", pasted, n)
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

// What an alias or a merge key writes for several rules is not changed for one of them.
func TestFamilyKeyLinesOfAliases(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		paths  [][]string
		pasted bool // some lines are
	}{
		"overrides": {"domain: api\ndescriptors:\n  - key: user\n    limit: 5/minute\n    overrides: &o\n      \"bob\": 3/minute\n  - key: ip\n    limit: 4/minute\n    overrides: *o\n",
			[][]string{{"user"}, {"ip"}}, false},
		"a merged rule": {"domain: api\ndescriptors:\n  - &u\n    key: user\n    limit: 5/minute\n  - <<: *u\n    key: ip\n", [][]string{{"user"}, {"ip"}}, true},
		"merged overrides": {"domain: api\ndescriptors:\n  - &u\n    key: user\n    limit: 5/minute\n    overrides:\n      \"bob\": 3/minute\n  - <<: *u\n    key: ip\n",
			[][]string{{"user"}, {"ip"}}, false},
		"rules beneath": {"domain: api\ndescriptors:\n  - key: user\n    value: ann\n    descriptors: &kids\n      - key: path\n        limit: 4/minute\n  - key: user\n    value: bob\n    descriptors: *kids\n",
			[][]string{{"user", "path"}}, false},
		"limits":    {"domain: api\ndescriptors:\n  - key: user\n    limit: &l {limit: 5/minute, algorithm: token_bucket, burst: 7}\n  - key: ip\n    limit: *l\n", [][]string{{"user"}, {"ip"}}, true},
		"one alone": {"domain: api\ndescriptors:\n  - key: user\n    limit: &l 5/minute\n  - key: ip\n    limit: 4/minute\n", [][]string{{"user"}, {"ip"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			seed, pasted := seeds.Of(t), 0
			for i := range uint64(60) {
				g := &ruleGen{rnd: rand.New(rand.NewPCG(seed, i)), paths: c.paths}
				if g.compareIn(t, c.source) == "pasted" {
					pasted++
				}
				if t.Failed() {
					t.Fatalf("case %d", i)
				}
			}
			if (pasted > 0) != c.pasted {
				t.Errorf("lines of %d changes were pasted", pasted)
			}
		})
	}
}

// A deny list that several share takes no value for one of them.
func TestFamilyDenyLinesOfAliases(t *testing.T) {
	for source, shared := range map[string]bool{
		"domain: api\ndeny: {user: &l [ann], ip: *l}\ndescriptors:\n  - {key: user, limit: 5/minute}\n":                  true,
		"domain: api\ndeny: {user: &l [ann]}\ndescriptors:\n  - {key: user, limit: 5/minute, deny: *l}\n":                true,
		"domain: api\ndeny: {user: &l [ann], ip: [\"192.0.2.1\"]}\ndescriptors:\n  - {key: user, limit: 5/minute}\n":     false,
		"domain: api\ndeny: {user: [ann], ip: [ann]}\ndescriptors:\n  - {key: user, limit: 5/minute, deny: [\"ann\"]}\n": false,
	} {
		set, err := load(t, source)
		if err != nil {
			t.Fatal(err)
		}
		lines := set.KeyLines(rules.KeyChange{Domain: "api", Action: rules.BanDomain, Entries: []weir.Entry{{Key: "user", Value: "bob"}}})
		if got := strings.HasPrefix(lines, "# no lines"); got != shared {
			t.Errorf("%s\n%s", source, lines)
		}
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

func (g *ruleGen) compare(t *testing.T) string {
	g.b.WriteString("domain: api\ndescriptors:\n")
	g.level("  ", 0, nil)
	return g.compareIn(t, g.b.String())
}

// compareIn makes a change in rules, and compares it with its lines.
func (g *ruleGen) compareIn(t *testing.T, source string) string {
	before, err := load(t, source)
	if err != nil {
		return "" // two limits of one name, and the like
	}
	changes := []rules.KeyAction{rules.BanKey, rules.AllowKey, rules.OverrideKey}
	kind := changes[g.rnd.IntN(3)]
	store := clocked.New(t)
	change := rules.KeyChange{Domain: "api", Action: kind}
	over, err := overlay.New(t.Context(), overlay.Options{Rules: before, Board: store, Now: store.Now.Load, YAML: func(e *overlay.Entry) string {
		change.Entries, change.Scope, change.Count, change.Period, change.Burst = e.Entries, e.Scope, e.Count, time.Duration(e.Period)*time.Microsecond, e.Burst
		return before.KeyLines(change)
	}})
	if err != nil {
		t.Fatal(err)
	}
	var target overlay.Target
	for range 20 {
		es := g.entries()
		ops := before.Match(nil, &weir.Request{Domain: "api", Lease: "x", Descriptors: []weir.Descriptor{{Entries: es}}})
		for _, op := range ops {
			switch op.Role {
			case weir.Enforce, weir.Shadow:
				if !strings.Contains(op.Limit.Scope, "\x1f") {
					target = overlay.Target{Domain: "api", Entries: es, Limit: op.Limit, Key: strings.Clone(op.Key)}
				}
			}
		}
	}
	if target.Limit == nil || target.Limit.Count == 1 && target.Limit.Shadow && kind != rules.BanKey {
		return ""
	}
	// A key shown by its hash is known by the entries that lead to it.
	if domain, es, ok := before.EntriesOf(target.Limit, target.Key); !ok && strings.Contains(source, "share_threshold") {
		// What an override of values that share a counter is for, the key does not tell.
	} else if !ok || domain != "api" {
		t.Errorf("%s\nno entries for key %q of %s", source, target.Key, target.Limit.Scope)
	} else if ops := before.Match(nil, &weir.Request{Domain: "api", Lease: "x", Descriptors: []weir.Descriptor{{Entries: es}}}); !slices.ContainsFunc(ops, func(o weir.Op) bool {
		return o.Limit.Scope == target.Limit.Scope && o.Key == target.Key
	}) {
		t.Errorf("%s\nentries %v of key %q of %s do not meet it", source, es, target.Key, target.Limit.Scope)
	}
	switch kind {
	case rules.BanKey:
		err = over.Keys.Set(t.Context(), target, overlay.Ban, 24*time.Hour, overlay.Author{})
	case rules.AllowKey:
		err = over.Keys.Set(t.Context(), target, overlay.Allow, 24*time.Hour, overlay.Author{})
	default:
		n := overlay.Numbers{Count: 1 + g.rnd.Int64N(9)}
		if g.chance(50) {
			n.Period = []time.Duration{time.Second, 90 * time.Second, time.Hour, 1500 * time.Millisecond}[g.rnd.IntN(4)]
		}
		if target.Limit.Algorithm.Name() == "token_bucket" && g.chance(50) {
			n.Burst = 1 + g.rnd.Int64N(9)
		}
		if err := over.Keys.Override(t.Context(), target, n, 0, overlay.Author{}); err != nil {
			return ""
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := over.Keys.YAML(&over.Keys.All()[0])
	what := fmt.Sprintf("%s\nchange %d of %v limit %q key %q\n%s", source, kind, target.Entries, target.Limit.Name, target.Key, lines)
	if strings.HasPrefix(lines, "# no lines") {
		return "said"
	}
	after, err := load(t, paste(t, source, lines))
	if err != nil {
		t.Errorf("%s\n%s\n%v", what, paste(t, source, lines), err)
		return ""
	}
	changed, pasted := newDecider(t, store, over), newDecider(t, clocked.New(t), after)
	for i := range 120 {
		es := g.entries()
		if g.chance(50) {
			es = slices.Clone(target.Entries)
			if g.chance(20) {
				es[g.rnd.IntN(len(es))] = g.entries()[0]
			}
			if g.chance(20) {
				es = append(es, weir.Entry{Key: "tier", Value: g.one("free", "pro", "ent-1")})
			}
		}
		req := weir.Request{Domain: "api", Lease: strconv.Itoa(i), Priority: g.rnd.IntN(3), Descriptors: []weir.Descriptor{{Entries: es}}}
		if g.chance(20) {
			req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: g.entries()})
		}
		if a, b := changed.decide(t, &req), pasted.decide(t, &req); !a.isLike(b) {
			t.Errorf("%s\n%s\nrequest %d %v: with the change %s, with the lines %s", what, paste(t, source, lines), i, req.Descriptors, a, b)
			return ""
		}
		g.pause(changed, pasted)
	}
	return "pasted"
}

func load(t *testing.T, source string) (*rules.Set, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return rules.Load([]string{file}, rules.Options{})
}

// paste puts lines where their first one says.
func paste(t *testing.T, source, lines string) string {
	t.Helper()
	comment, rest, _ := strings.Cut(lines, "\n")
	_, place, _ := strings.Cut(comment, ".yaml:")
	number, where, _ := strings.Cut(place, ", ")
	at, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("%q names no line", comment)
	}
	all := strings.Split(source, "\n")
	indent := all[at-1][:len(all[at-1])-len(strings.TrimLeft(all[at-1], " "))]
	drop := 0
	switch {
	case strings.HasSuffix(where, ": beside its key"):
		indent, at = indent+"  ", at+1
	case strings.HasSuffix(where, ": into its overrides"), strings.HasPrefix(where, "into the list of the rule "):
	case strings.Contains(where, ": in the place of its override for "):
		drop = 1
	default:
		t.Fatalf("%q names no place", comment)
	}
	var in []string
	for _, l := range strings.Split(strings.TrimSuffix(rest, "\n"), "\n") {
		in = append(in, indent+l)
	}
	return strings.Join(slices.Concat(all[:at-1], in, all[at-1+drop:]), "\n")
}
