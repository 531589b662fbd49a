package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/rules"
)

// seeds adds every rules file of the goldens and examples.
func seeds(f *testing.F, add func(text string)) {
	f.Helper()
	for _, glob := range []string{"../testdata/rules/*.txt", "../examples/*.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", glob, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if strings.HasSuffix(file, ".yaml") {
				add(string(text))
				continue
			}
			for _, s := range readArchive(string(text)).files {
				if strings.HasSuffix(s.name, ".yaml") {
					add(s.text)
				}
			}
		}
	}
}

// FuzzLoad: any text gives a set or faults with a place, in bounded time; and a set that
// loads has only limits that can be used.
func FuzzLoad(f *testing.F) {
	seeds(f, func(text string) { f.Add(text) })
	for _, text := range []string{
		"domain: &a\n  x: *a", "a: &a [*a, *a]", "[[[[[[[[[[[[[[[[[[[[", "{{{{{{{{{{{{{{{", "- - - - - - - - - -", "? ? ? ? ? ?",
		"&a &b &c &d", "!!str !!str !!str x", "domain: !!binary aaaa", "%YAML 1.1\n---\ndomain: x", "\xff\xfe", "domain: \"\\x00\"",
		"domain: d\ndescriptors:\n- <<: *x", "domain: d\n<<: [{}, {}]", "---\n---\n---", "domain: |\n  x", "\tdomain: x", "a:\n\t- b",
		"domain: x\ndescriptors: [{key: k, limit: 9007199254740993/s}]", "domain: x\ndescriptors: [{key: k, limit: 1/9999999999999w}]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			t.Skip()
		}
		start := time.Now()
		set, err := rules.Parse("f.yaml", []byte(text), rules.Options{MaxNodes: 20_000})
		if took := time.Since(start); took > 30*time.Second {
			t.Fatalf("it took %s", took)
		}
		if err != nil {
			if err.Error() == "" || strings.ContainsFunc(err.Error(), func(c rune) bool { return c != '\n' && unicode.IsControl(c) }) {
				t.Fatalf("%q", err)
			}
			return
		}
		for _, l := range set.Limits() {
			if l.Cells < 1 || l.Name == "" || l.Scope == "" || l.Count < 0 {
				t.Fatalf("limit %+v", l)
			}
		}
		_ = describeSet(set)
	})
}

// FuzzMatch: any request of two entries is matched, and its explanation tells
// the same ops.
func FuzzMatch(f *testing.F) {
	seeds(f, func(text string) { f.Add(text, "client", "x", "plan", "pro", int64(1)) })
	f.Add(many, "client", "w\x1f-xz", "a", "b", int64(-1))
	f.Fuzz(func(t *testing.T, text, k1, v1, k2, v2 string, cost int64) {
		if len(text) > 1<<12 {
			t.Skip()
		}
		set, err := rules.Parse("f.yaml", []byte(text), rules.Options{MaxNodes: 2000})
		if err != nil {
			return
		}
		for _, domain := range append(set.Domains(), "unknown") {
			r := &weir.Request{Domain: domain, Cost: cost, Descriptors: []weir.Descriptor{
				{Entries: []weir.Entry{{Key: k1, Value: v1}, {Key: k2, Value: v2}}},
				{Entries: []weir.Entry{{Key: k2, Value: v2}}},
				{},
			}}
			for _, rule := range set.Rules() {
				r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: rule.Key, Value: v1}}},
					weir.Descriptor{Entries: []weir.Entry{{Key: rule.Key, Value: rule.Value}, {Key: k2, Value: v2}}})
			}
			ops := set.Match(nil, r)
			met := 0
			for _, s := range set.Explain(r).Descriptors {
				met += len(s.Limits)
				if s.Outcome == "" || s.Why == "" {
					t.Fatalf("unexplained: %+v", s)
				}
			}
			listed := len(ops) == 1 && ops[0].Role == weir.Deny && met == 0
			if met != len(ops) && !listed {
				t.Fatalf("%d ops, %d explained", len(ops), met)
			}
			for i := range ops {
				if ops[i].Limit == nil || ops[i].Limit.Cells < 1 {
					t.Fatalf("op %+v", ops[i])
				}
			}
		}
	})
}

// TestHostileFilesTakeBoundedTime: text made to be read slowly. Every one of
// these takes milliseconds; a parser that is quadratic in it takes many seconds.
func TestHostileFilesTakeBoundedTime(t *testing.T) {
	const n = 1 << 17
	indent := func(step string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(strings.Repeat(" ", i) + step + "\n")
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", n), "braces": strings.Repeat("{", n), "dashes": strings.Repeat("- ", n/2), "questions": strings.Repeat("? ", n/2),
		"letters": strings.Repeat("a", n), "colons": strings.Repeat("a: ", n/3), "lines": strings.Repeat("a: b\n", n/5), "uniq": func() string {
			var b strings.Builder
			for i := 0; b.Len() < n; i++ {
				fmt.Fprintf(&b, "a%d: b\n", i)
			}
			return b.String()
		}(),
		"anchors": strings.Repeat("&a ", n/3), "tags": strings.Repeat("!!str ", n/6), "spaces": strings.Repeat(" ", n), "newlines": strings.Repeat("\n", n),
		"comments": strings.Repeat("#\n", n/2), "comment": strings.Repeat("#", n), "quotes": strings.Repeat("\"", n), "single": strings.Repeat("'", n), "quoted": "a: \"" + strings.Repeat("x", n) + "\"",
		"quotedlines": "a: \"" + strings.Repeat("x\n  ", n/4) + "\"", "literal": "a: |\n" + strings.Repeat("  x\n", n/4), "folded": "a: >\n" + strings.Repeat("  x\n", n/4),
		"plainlines": "a: " + strings.Repeat("x\n  ", n/4), "docs": strings.Repeat("---\n", n/4), "docs2": strings.Repeat("a: b\n---\n", n/9), "indentmap": indent("a:"), "indentlist": indent("-"), "escapes": "a: \"" + strings.Repeat("\\n", n/2) + "\"",
		"flowlist": "a: [" + strings.Repeat("b,", n/2) + "]", "flowmap": "a: {" + strings.Repeat("b: c,", n/5) + "}", "list": "a:\n" + strings.Repeat("- b\n", n/4), "aliases": "a: &a b\nc:\n" + strings.Repeat("- *a\n", n/5),
		"tabs": strings.Repeat("\t", n), "crlf": strings.Repeat("a: b\r\n", n/6), "unicode": "a: " + strings.Repeat("ä", n/2), "merges": "a: &a {x: 1}\nb:\n" + strings.Repeat("  <<: *a\n", n/10), "pct": strings.Repeat("%", n), "dir": strings.Repeat("%YAML\n", n/6),
		"bar": strings.Repeat("a: |\n", n/5), "at": strings.Repeat("@", n), "commas": strings.Repeat(",", n), "closing": strings.Repeat("]", n),
	} {
		start := time.Now()
		_, err := rules.Parse("x", []byte(text), rules.Options{})
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: %s", name, took)
		}
		if err == nil {
			t.Errorf("%s is a rules file", name)
		}
	}
}
