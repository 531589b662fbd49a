package hostile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/sharedtest"
)

// testsOf returns the names of all tests and fuzz targets of the module, as
// docs/explanation/security.md writes them.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
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
				all[folder+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSecurityTable: every test that docs/explanation/security.md names exists, and it names
// every fuzz target and every test of this package.
func TestSecurityTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	all := testsOf(t)
	named, shared := make(map[string]bool), sharedtest.Names()
	for _, m := range regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)[A-Z]\\w*)(?:/([^`]+))?`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
		if !all[m[1]] || m[2] != "" && !slices.Contains(shared, m[2]) {
			t.Errorf("docs/explanation/security.md names %s, which there is not", m[0])
		}
	}
	for name := range all {
		_, f, _ := strings.Cut(name, ".")
		isTest := strings.HasPrefix(name, "lab/hostile.Test") && f != "TestMain"
		if (isTest || strings.HasPrefix(f, "Fuzz")) && !named[name] {
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

// TestTokensAreComparedInConstantTime: the places that compare a token an
// operator shows, or the password of a Redis client, do so by crypto/subtle, on hashes of one length.
func TestTokensAreComparedInConstantTime(t *testing.T) {
	for path, name := range map[string]string{"../../internal/server/admin.go": "guard", "../../internal/frontend/httpapi/operator.go": "", "../../internal/frontend/resp/conn.go": "authenticate"} {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		constant, hashed := false, false
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok {
				constant = constant || f.Sel.Name == "ConstantTimeCompare"
				hashed = hashed || f.Sel.Name == "Sum256"
			}
			return true
		})
		if !constant || !hashed {
			t.Errorf("%s %s: compared in constant time %t, by hashes %t", path, name, constant, hashed)
		}
	}
}
