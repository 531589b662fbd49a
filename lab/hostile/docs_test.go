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

// writePage writes the page of the fuzz targets: go test ./lab/hostile -run TestFuzzTargetsPage -page
var writePage = flag.Bool("page", false, "rewrite docs/reference/generated/fuzz-targets.md")

// testsOf returns all tests and fuzz targets of the module, by their names as
// docs/explanation/security.md writes them, with the first sentences of their comments.
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
	if *writePage {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page {
		t.Errorf("%s is stale (%v): go test ./lab/hostile -run TestFuzzTargetsPage -page", path, err)
	}
}

// TestSecurityTable: every test that docs/explanation/security.md names exists, and it names
// every test of this package.
func TestSecurityTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	all := testsOf(t)
	named, shared := make(map[string]bool), sharedtest.Names()
	for _, m := range regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)[A-Z]\\w*)(?:/([^`]+))?`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
		if _, ok := all[m[1]]; !ok || m[2] != "" && !slices.Contains(shared, m[2]) {
			t.Errorf("docs/explanation/security.md names %s, which there is not", m[0])
		}
	}
	for name := range all {
		_, f, _ := strings.Cut(name, ".")
		isTest := strings.HasPrefix(name, "lab/hostile.Test") && f != "TestMain"
		if isTest && !named[name] {
			t.Errorf("docs/explanation/security.md does not name %s: give it a line", name)
		}
		if strings.HasPrefix(name, "lab/bench/") && strings.HasPrefix(f, "Fuzz") {
			t.Errorf("make fuzz does not run %s, which is in another module", name)
		}
	}
	if len(named) < 100 {
		t.Errorf("only %d tests are named: is the form of their names another?", len(named))
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) == 5 && !strings.Contains(line, "---") && !strings.Contains(line, "| test |") && !strings.Contains(cells[3], "`") {
			t.Errorf("no test stands for %q", strings.TrimSpace(line))
		}
	}
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
		"internal/server":            {"CheckToken"},
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
