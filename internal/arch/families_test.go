package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longForms are the lines of the Makefile that run long forms: those tests of all packages
// that have some names, or all tests of some packages, but for those of the first kind.
var longForms = regexp.MustCompile(`(?m)^\tWEIR_SOAK=1 .*?(?: -run '([^']+)' \$\(PACKAGES\)|((?: \./[\w/]+)+))$`)

// TestLongFormsAreRun fails if a test does more with WEIR_SOAK and neither `make families`
// nor `make soak` runs it.
func TestLongFormsAreRun(t *testing.T) {
	var whole, names []string
	for _, m := range longForms.FindAllStringSubmatch(readText(t, "../../Makefile"), -1) {
		if m[1] == "" {
			whole = append(whole, strings.Fields(strings.ReplaceAll(m[2], "./", ""))...)
		} else {
			names = append(names, m[1])
		}
	}
	if len(names) < 2 || len(whole) < 2 {
		t.Fatalf("the Makefile runs %q in all packages, and all of %q", names, whole)
	}
	run := regexp.MustCompile(strings.Join(names, "|"))
	long := 0
	for dir, tests := range longTests(t) {
		for _, name := range tests {
			if long++; !slices.Contains(whole, dir) && !run.MatchString(name) {
				t.Errorf("%s: %s does more with WEIR_SOAK, and neither make families nor make soak runs it: name it TestFamily... or ...Soak", dir, name)
			}
		}
	}
	if long < 50 {
		t.Errorf("only %d tests have a long form", long)
	}
}

// longTests returns the tests of each folder of this module that read WEIR_SOAK, or call
// what does, in their own package or in storetest.
func longTests(t *testing.T) map[string][]string {
	t.Helper()
	long := map[string][]string{}
	suite := readers(t, "../../store/storetest", "*.go", nil)
	for _, p := range list(t) {
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		for name := range readers(t, filepath.Join("../..", dir), "*_test.go", suite) {
			if strings.HasPrefix(name, "Test") && name != "TestMain" {
				long[dir] = append(long[dir], name)
			}
		}
	}
	return long
}

// readers returns the names of the functions and variables of some files of a folder that
// read WEIR_SOAK, or name what does, or one of suite as storetest.Name.
func readers(t *testing.T, dir, files string, suite map[string]bool) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, files))
	if err != nil {
		t.Fatal(err)
	}
	decls := map[string]ast.Node{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					decls[d.Name.Name] = d
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							decls[n.Name] = v
						}
					}
				}
			}
		}
	}
	found := map[string]bool{}
	for grew := true; grew; {
		grew = false
		for name, d := range decls {
			if !found[name] && reads(d, name, found, suite) {
				found[name], grew = true, true
			}
		}
	}
	return found
}

func reads(d ast.Node, own string, found, suite map[string]bool) (yes bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "storetest" && suite[n.Sel.Name] {
				yes = true
			}
			return !yes
		case *ast.BasicLit:
			yes = yes || n.Value == `"WEIR_SOAK"`
		case *ast.Ident:
			yes = yes || n.Name != own && found[n.Name]
		}
		return !yes
	})
	return yes
}
