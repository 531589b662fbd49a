package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/rules"
)

func loadText(t *testing.T, text string) *rules.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load([]string{file}, rules.Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return set
}

// over lays a mode over the limits of a name in a set, as a node does.
func over(t *testing.T, set *rules.Set, name string, s overlay.Setting) (weir.Rules, string) {
	t.Helper()
	var places []overlay.LimitRef
	var yaml string
	for _, r := range set.Rules() {
		for _, l := range r.All() {
			if l.Limit != nil && l.Name == name {
				places = append(places, overlay.LimitRef{Domain: r.Domain, Rule: r.Path, Limit: l.Limit, Denies: l.Denies, Priority: l.Priority})
				yaml = l.ModeLines(string(s.Mode), s.Percent)
			}
		}
	}
	store := clocked.New(t)
	o, err := overlay.New(t.Context(), overlay.Options{Rules: set, Board: store, Now: store.Now.Load, LimitRefs: func() []overlay.LimitRef { return places }})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Modes.Set(t.Context(), places, s, 0, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	return o, yaml
}

// sameOps compares what requests of many clients meet.
func sameOps(t *testing.T, what string, got, want weir.Rules, key string) {
	t.Helper()
	for i := range 60 {
		r := func() *weir.Request {
			return &weir.Request{Domain: "api", Cost: 1, Priority: i % 3, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: key, Value: fmt.Sprint("c", i)}}}}}
		}
		a, b := got.Match(nil, r()), want.Match(nil, r())
		if !slices.EqualFunc(a, b, func(a, b weir.Op) bool {
			return a.Key == b.Key && a.Cost == b.Cost && a.Role == b.Role && a.Headroom == b.Headroom && a.Penalize == b.Penalize &&
				a.Limit.Name == b.Limit.Name && a.Limit.Scope == b.Limit.Scope && a.Limit.Count == b.Limit.Count && a.Limit.Burst == b.Limit.Burst
		}) {
			t.Fatalf("%s, c%d: by an operator\n%+v\nby the file\n%+v", what, i, a, b)
		}
	}
}

// The lines that a mode amounts to do in the file what the mode does over it.
func TestModeLinesDoWhatTheModeDoes(t *testing.T) {
	const head = "domain: api\npools:\n  spare: {limit: 500/second, headroom: [0, 10%, 20%], algorithm: token_bucket}\ndescriptors:\n  - key: client\n    SHADOW\n    limits:\n      - name: other\n        limit: 9/hour\n      -\n"
	for _, block := range []string{
		"limit: 5/minute",
		"limit: 5/minute\nmode: shadow",
		"limit: 5/minute\nrollout: 20%",
		"limit: 5/minute\nrollout: 0%",
		"limit: 5/minute\nban: {after: 5, for: 15m}\npenalize: true",
		"limit: 5/minute\nmode: shadow\nban: {after: 5, for: 15m}\npriority: 2",
		"limit: 50/minute\nmode: soft\nexceed: 30%",
		"limit: 50/minute\nmode: soft\nexceed: 30%\nrollout: 20%",
		"limit: 5/second\nalgorithm: token_bucket\nmode: elastic\npool: spare\nceiling: 50\npriority: 2",
		"limit: 5/second\nalgorithm: token_bucket\nmode: elastic\npool: spare\nrollout: 20%\nheadroom: [0, 20%, 40%]\npriority: 1",
		"limit: 0",
		"limit: 0\nmode: shadow",
	} {
		for _, shadow := range []string{"", "shadow_mode: true"} {
			for _, s := range []overlay.Setting{{Mode: overlay.Shadow}, {Mode: overlay.Off}, {Mode: overlay.Enforced, Percent: 10}, {Mode: overlay.Enforced, Percent: 100}} {
				file := func(shadow string, lines []string) string {
					text := strings.Replace(head, "SHADOW", cmpOr(shadow, "detailed_metric: false"), 1)
					if shadow == "shadow_mode: false" {
						text = strings.Replace(text, "limit: 9/hour", "limit: 9/hour\n        mode: shadow", 1)
					}
					for _, line := range append([]string{"name: it"}, lines...) {
						text += "        " + line + "\n"
					}
					return text
				}
				was := strings.Split(block, "\n")
				o, yaml := over(t, loadText(t, file(shadow, was)), "it", s)
				comment, rest, _ := strings.Cut(yaml, "\n")
				lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
				is, shadowIs := was, shadow
				if strings.Contains(comment, "in the place of its numbers") {
					is = nil
				}
				if strings.Contains(comment, "shadow_mode: false") {
					shadowIs = "shadow_mode: false"
					if !strings.Contains(comment, "and mode: shadow in the other limits") {
						t.Errorf("of the other limit nothing is said: %s", comment)
					}
				}
				for _, line := range lines {
					key, _, _ := strings.Cut(line, ":")
					is = slices.DeleteFunc(slices.Clone(is), func(l string) bool { return strings.HasPrefix(l, key+":") })
				}
				if strings.Contains(comment, "has no rollout in a file") {
					if s.Percent == 100 || block[:8] != "limit: 0" {
						t.Errorf("%q to %s: %s", block, s, yaml)
					}
					roles := map[weir.Role]int{}
					for i := range 200 {
						ops := o.Match(nil, &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "client", Value: fmt.Sprint(i)}}}}})
						roles[ops[len(ops)-1].Role]++
					}
					if n := roles[weir.Deny]; n < 5 || n > 50 || n+roles[weir.Shadow] != 200 {
						t.Errorf("%q to %s: of 200 clients the roles are %v", block, s, roles)
					}
					continue
				}
				if strings.Contains(yaml, "rollout: 100%") && !strings.Contains(block, "rollout:") && !strings.Contains(block, "exceed") && !strings.Contains(block, "pool") {
					t.Errorf("%q to %s: a rollout that changes nothing: %s", block, s, yaml)
				}
				sameOps(t, fmt.Sprintf("%q %s to %s\n%s", block, shadow, s, yaml), o, loadText(t, file(shadowIs, append(slices.Clone(is), lines...))), "client")
			}
		}
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// A limit in words is a file of its own when it gets a mode.
func TestWordsInFile(t *testing.T) {
	w := &weir.Limit{Name: `20/10s by "x"`, Scope: "s", Algorithm: algorithm.TokenBucket, Count: 20, Period: 10e9, Burst: 40}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, shared := range []bool{false, true} {
		set := loadText(t, rules.WordsInFile("api", [][]string{{"remote_address"}, {"client_id"}}, w, shared, "enforce", 30))
		for _, key := range []string{"remote_address", "client_id"} {
			ops := set.Match(nil, &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: key, Value: "a"}}}}})
			if len(ops) != 1 || ops[0].Limit.Count != 20 || ops[0].Limit.Burst != 40 || ops[0].Limit.Rollout != 30 || ops[0].Limit.Algorithm != algorithm.TokenBucket || (ops[0].Key == "") != shared {
				t.Errorf("%s, shared %t: %+v", key, shared, ops)
			}
		}
		if text := rules.WordsInFile("api", [][]string{{"client_id"}}, w, shared, "enforce", 100); strings.Contains(text, "mode") || strings.Contains(text, "rollout") {
			t.Errorf("a mode that is the default: %s", text)
		}
		several := &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "header:X-Key", Value: "a"}, {Key: "path", Value: "/"}}}}}
		if ops := loadText(t, rules.WordsInFile("api", [][]string{{"header:X-Key", "path"}}, w, false, "enforce", 100)).Match(nil, several); len(ops) != 1 || ops[0].Key != several.KeyOf(&several.Descriptors[0]) {
			t.Errorf("two keys meet %+v", ops)
		}
		if ops := loadText(t, rules.WordsInFile("api", [][]string{{"client_id"}}, w, shared, "off", 0)).Match(nil,
			&weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "client_id", Value: "a"}}}}}); len(ops) != 0 {
			t.Errorf("off, and meets %+v", ops)
		}
	}
}
