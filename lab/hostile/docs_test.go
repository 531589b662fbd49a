package hostile

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/sharedtest"
)

// writePage writes the pages that tests make: go test ./lab/hostile -run Page -page
var writePage = flag.Bool("page", false, "rewrite docs/reference/generated/fuzz-targets.md and evidence.md")

// testsOf returns all tests and fuzz targets of the module, by their names as
// threats.txt writes them, with the first sentences of their comments.
func testsOf(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if folder = filepath.ToSlash(folder); folder == "." {
			folder = "weir"
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[folder+"."+f.Name.Name] = new(doc.Package).Synopsis(f.Doc.Text())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFuzzTargetsPage: docs/reference/generated/fuzz-targets.md has every fuzz target.
func TestFuzzTargetsPage(t *testing.T) {
	const path = "../../docs/reference/generated/fuzz-targets.md"
	all := testsOf(t)
	page := "# Fuzz targets\n\nEvery parser of foreign input has one; `make fuzz` runs them all.\n\n| target | what it checks |\n|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, f, _ := strings.Cut(name, "."); strings.HasPrefix(f, "Fuzz") {
			page += fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(all[name], "|", "\\|"))
		}
	}
	checkPage(t, path, page, "TestFuzzTargetsPage")
}

// checkPage writes a page with -page, and reports a page that is not what it is to be.
func checkPage(t *testing.T, path, page, test string) {
	t.Helper()
	if *writePage {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page {
		t.Errorf("%s is stale (%v): go test ./lab/hostile -run %s -page", path, err, test)
	}
}

// TestEvidencePage: docs/reference/generated/evidence.md is made of threats.txt and the faults.txt
// of lab/fleet. Each test that they name exists, each case names one, and every test of this
// package is named.
func TestEvidencePage(t *testing.T) {
	all, named := testsOf(t), make(map[string]bool)
	page := "# Evidence\n\nThe attacks and faults that tests cause, what happens, and the tests. " +
		"[Security](../../explanation/security.md) and [faults](../../explanation/faults.md) explain them. " +
		"Made by `go test ./lab/hostile -run TestEvidencePage -page`.\n"
	for _, path := range []string{"threats.txt", "../fleet/faults.txt"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			if i == 0 {
				continue // how the file is written
			}
			page += evidenceOf(t, path, block, all, named)
		}
	}
	for name := range all {
		_, f, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "lab/hostile.Test") && f != "TestMain" && !strings.HasSuffix(f, "Page") && !named[name] {
			t.Errorf("threats.txt does not name %s: give it a line", name)
		}
		if strings.HasPrefix(name, "lab/bench/") && strings.HasPrefix(f, "Fuzz") {
			t.Errorf("make fuzz does not run %s, which is in another module", name)
		}
	}
	if len(named) < 300 {
		t.Errorf("only %d tests are named: is the form of the files another?", len(named))
	}
	checkPage(t, "../../docs/reference/generated/evidence.md", page, "TestEvidencePage")
}

// testName finds the name of a test, and the subtest.
var testName = regexp.MustCompile(`^\t([a-z0-9/]+\.(?:Test|Fuzz)[A-Z]\w*)(?:/(\S+))?$`)

// evidenceOf returns the Markdown of one block of a file: the head of a section, or a case with
// its tests, which it adds to named.
func evidenceOf(t *testing.T, path, block string, all map[string]string, named map[string]bool) string {
	t.Helper()
	lines := strings.Split(block, "\n")
	if head, isHead := strings.CutPrefix(block, "## "); isHead {
		title, columns, _ := strings.Cut(head, " | ")
		return fmt.Sprintf("\n## %s\n\n| case | %s | tests |\n|---%s|---|\n", title, columns, strings.Repeat("|---", strings.Count(head, " | ")))
	}
	var tests []string
	for _, line := range lines[1:] {
		m := testName.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s: %q names no test", path, line)
			continue
		}
		// TestFaultsFileNamesFaults of lab/fleet checks the subtests of its own table.
		test, sub := m[1], m[2]
		_, exists := all[test]
		if !exists || sub != "" && test != "lab/fleet.TestFaultsOfTheStore" && !slices.Contains(sharedtest.Names(), sub) {
			t.Errorf("%s: there is no test %s", path, strings.TrimSpace(line))
		}
		named[test] = true
		tests = append(tests, "`"+strings.TrimSpace(line)+"`")
	}
	if len(tests) == 0 || !strings.Contains(lines[0], " | ") {
		t.Errorf("%s: %q is no case with tests", path, block)
	}
	return fmt.Sprintf("| %s | %s |\n", lines[0], strings.Join(tests, ", "))
}

// parseFolder parses the files of a package but its tests.
func parseFolder(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// TestTokensAreComparedInConstantTime: guesses.Equal compares by crypto/subtle, on hashes
// of one length, and the places that are shown the token of an operator, or the password of
// a Redis client, compare by it alone.
func TestTokensAreComparedInConstantTime(t *testing.T) {
	for folder, want := range map[string][]string{
		"internal/guesses":           {"ConstantTimeCompare", "Sum256", "Equal"},
		"internal/node":              {"CarriesToken"},
		"internal/frontend/httpapi":  {"CheckToken"},
		"internal/frontend/resp":     {"guesses.Equal"},
		"internal/insight/dashboard": {"guesses.Equal"},
	} {
		called := map[string]bool{}
		for _, file := range parseFolder(t, "../../"+folder) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					switch f := n.Fun.(type) {
					case *ast.SelectorExpr:
						called[f.Sel.Name] = true
						if x, ok := f.X.(*ast.Ident); ok {
							called[x.Name+"."+f.Sel.Name] = true
						}
					case *ast.Ident:
						called[f.Name] = true
					}
				case *ast.BinaryExpr:
					if n.Op != token.EQL && n.Op != token.NEQ {
						return true
					}
					for _, x := range []ast.Expr{n.X, n.Y} {
						if f, ok := x.(*ast.SelectorExpr); ok && (f.Sel.Name == "Token" || f.Sel.Name == "Password") {
							if y, ok := n.Y.(*ast.BasicLit); !ok || y.Value != `""` {
								t.Errorf("%s compares %s by %s", folder, f.Sel.Name, n.Op)
							}
						}
					}
				}
				return true
			})
		}
		for _, name := range want {
			if !called[name] {
				t.Errorf("%s does not call %s", folder, name)
			}
		}
	}
}
