package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// TestPatchesFit checks what needs no compiler: every patch applies and gives
// Go, the tests that it names exist, and the document has a row for it.
func TestPatchesFit(t *testing.T) {
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	covered := map[int]bool{}
	for _, m := range all {
		covered[m.number()] = true
		if _, after, err := m.mutate(root); err != nil {
			t.Error(err)
		} else {
			for file, text := range after {
				if !strings.HasSuffix(file, ".go") {
					continue // a script: the server says whether it is one
				}
				if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
					t.Errorf("%s.patch: %v", m.name, err)
				}
			}
		}
		for _, k := range m.kills {
			if !hasTest(t, k) {
				t.Errorf("%s.patch: no test matches %s", m.name, k)
			}
		}
		if !strings.Contains(string(doc), "/"+m.name+".patch)") {
			t.Errorf("%s has no row for %s: go run ./lab/mutants -write", page, m.name)
		}
	}
	if rows := strings.Count(string(doc), ".patch)"); rows != len(all) {
		t.Errorf("%s has %d rows for %d patches: go run ./lab/mutants -write", page, rows, len(all))
	}
	for _, a := range absent {
		covered[a.number] = true
		if !strings.Contains(string(doc), a.why) {
			t.Errorf("%s has no row for what no patch makes of mistake %d: go run ./lab/mutants -write", page, a.number)
		}
	}
	for n := 1; n <= classics; n++ {
		if !covered[n] {
			t.Errorf("mistake %d has neither a patch nor a reason", n)
		}
	}
}

func hasTest(t *testing.T, k kill) bool {
	t.Helper()
	top, _, _ := strings.Cut(anchored(k.pattern), "/")
	pattern, err := regexp.Compile(top)
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	files, _ := filepath.Glob(filepath.Join(root, k.pkg, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			if pattern.MatchString(m[1]) {
				return true
			}
		}
	}
	return false
}

// TestVerdicts breaks a module of one function in every way that there is to
// judge.
func TestVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go test several times")
	}
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":      "module example.org/one\n\ngo 1.26\n",
		"one.go":      "package one\n\nfunc one() int {\n\treturn 1\n}\n\nfunc two() int {\n\treturn one() + 1\n}\n",
		"one_test.go": "package one\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Error(one())\n\t}\n}\n\nfunc TestNothing(*testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := runner{dir: dir, timeout: time.Second}
	f := func(want, test, from, to string) {
		t.Helper()
		m, err := parse("01-x", "Mistake: x\nBreaks: y\nKill: . "+test+"\n\n--- a/one.go\n+++ b/one.go\n@@\n-"+from+"\n+"+to+"\n")
		if err != nil {
			t.Fatal(err)
		}
		res := r.try(t.Context(), m)
		got := strings.Join(res.by, " ")
		if res.err != nil {
			got = res.err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("TestOne", "TestOne", "\treturn 1", "\treturn 2")
	f("TestOne", "TestOne", "\treturn 1", "\tpanic(1)")
	f("TestOne (timeout)", "TestOne", "\treturn 1", "\tfor { }")
	f("survives . TestOne", "TestOne", "\treturn 1", "\treturn 2 - 1")
	f("survives . TestNothing", "TestNothing", "\treturn 1", "\treturn 2")
	f("does not compile", "TestOne", "\treturn 1", "\treturn true")
	f("no test of that name", "TestOn", "\treturn 1", "\treturn 2")
	f("no longer applies", "TestOne", "\treturn 3", "\treturn 2")
	f("ambiguous", "TestOne", "}", "}}")
	// All of it was taken back.
	if err := r.baseline(t.Context(), kill{pkg: ".", pattern: "TestOne"}); err != nil {
		t.Error(err)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	const header = "Mistake: x\nBreaks: y\nKill: . TestOne\n\n"
	f := func(want, name, text string) {
		t.Helper()
		if _, err := parse(name, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	f("NN-short-name", "x", header)
	f("number", "ab-x", header)
	f("empty line", "01-x", "Mistake: x\n")
	f("Mistake, Breaks and Kill", "01-x", "Mistake: x\nBreaks: y\n\n")
	f("unknown header line", "01-x", "Mistake: x\nHurts: y\n\n")
	f("a package and a pattern", "01-x", "Kill: .\n\n")
	f("no hunks", "01-x", header)
	f("outside of any hunk", "01-x", header+"-x\n")
	f("no line of a diff", "01-x", header+"--- a/one.go\n+++ b/one.go\n@@\nx\n")
	f("changes nothing", "01-x", header+"--- a/one.go\n+++ b/one.go\n@@\n x\n")
	f("renames", "01-x", header+"--- a/one.go\n+++ b/two.go\n@@\n-x\n+y\n")
}
