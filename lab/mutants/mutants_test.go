package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// TestTable checks what needs no compiler: every entry names one text of one
// function, the test that is to fail exists, and the page is that of the table.
// That each mutant is killed, `make mutants` checks.
func TestTable(t *testing.T) {
	all, err := parseTable(table)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if _, _, err := m.apply(root); err != nil {
			t.Error(err)
		}
		if !hasTest(t, m.kill) {
			t.Errorf("mutant %s: no test matches %s: name the one that notices now", m, m.kill)
		}
		if key := m.String() + m.was; seen[key] {
			t.Errorf("mutant %s: %q is changed twice: remove one", m, m.was)
		} else {
			seen[key] = true
		}
	}
	if n := len(all); n > 70 {
		t.Errorf("%d mutants, at most 70 are wanted: remove those that matter least", n)
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != render(all) {
		t.Errorf("%s is not of the table: go run ./lab/mutants -write", page)
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

// module writes a module of two functions and a script, and returns its folder.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.org/one\n\ngo 1.26\n",
		"one.go": "package one\n\ntype box[T any] struct{}\n\nfunc (*box[T]) one() int {\n\treturn 1\n}\n\nconst most, least = 7,\n\t1\n\n" +
			"func one() int {\n\treturn 1\n}\n\nfunc two() int {\n\treturn one() + 1 + 1\n}\n",
		"again.go":    "//go:build never\n\npackage one\n\nfunc two() int { return 2 }\n",
		"one.lua":     "local function one()\n  return 1\nend\nlocal function two()\n  return 1\nend\nreturn one()\n",
		"one_test.go": "package one\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Error(one())\n\t}\n}\n\nfunc TestNothing(*testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestApply(t *testing.T) {
	dir := module(t)
	f := func(want, decl, was, now string) {
		t.Helper()
		_, text, err := mutant{dir: ".", decl: decl, was: was, now: now}.apply(dir)
		got := string(text)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", decl, got, want)
		}
	}
	f("func one() int {\n\treturn 2", "one", "return   1", "return 2")
	f("one() int {\n\treturn 2\n}\n\nconst", "box.one", "1", "2")
	f("least = 7,\n\t2", "most", "1", "2")
	f("one()\n  return 2\nend\nlocal", "one.lua:one", "return 1", "return 2")
	f("end\nreturn two()\n", "one.lua", "return one()", "return two()")
	f("2 declarations", "two", "1", "2")
	f("0 declarations", "three", "1", "2")
	f("0 functions", "one.lua:three", "1", "2")
	f("name the script", "two.lua", "1", "2")
	f("occurs 2 times", "one.lua", "return 1", "return 2")
	f("occurs 0 times", "one", "retur", "goto")
	f("is not Go", "one", "return 1", "return )")
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	const whole = "./a F\nwas x\n\ty\nnow\nkill TestA\nharm h"
	all, err := parseTable(whole + "\n\n" + strings.Replace(whole, "kill ", "kill ./b ", 1) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	m := mutant{dir: "./a", decl: "F", was: "x\ny", kill: kill{"./a", "TestA"}, harm: "h"}
	if len(all) != 2 || all[0] != m || all[1].kill != (kill{"./b", "TestA"}) {
		t.Errorf("got %+v", all)
	}
	f := func(want, old, now string) {
		t.Helper()
		if _, err := parseTable(strings.Replace(whole, old, now, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	f("package and a function", "./a F", "F")
	f(`line "hurts h"`, "harm", "hurts")
	f("once each", "harm h", "kill h")
	f("want was, now, kill and harm", "now\n", "")
	f("changes nothing", "now", "now x\n\ty")
}

// TestVerdicts breaks a module of one function in every way that there is to
// judge.
func TestVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go test several times")
	}
	r := runner{root: module(t), tmp: t.TempDir(), timeout: time.Second}
	f := func(want, test, now string) {
		t.Helper()
		got, err := r.try(t.Context(), 0, mutant{dir: ".", decl: "one", was: "return 1", now: now, kill: kill{".", test}})
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", now, got, want)
		}
	}
	f("TestOne", "TestOne", "return 2")
	f("TestOne", "TestOne", "panic(1)")
	f("TestOne (timeout)", "TestOne", "for { }")
	f("survives . TestOne", "TestOne", "return 2 - 1")
	f("survives . TestNothing", "TestNothing", "return 2")
	f("does not compile", "TestOne", "return true")
	f("no test of that name", "TestOn", "return 2")
	f("not Go", "TestOne", "return )")
	// The tree is as it was.
	if err := r.baseline(t.Context(), ".", []string{"^(TestOne)$"}); err != nil {
		t.Error(err)
	}
}
