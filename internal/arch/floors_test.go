package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestFilesCallDown looks whether the files of each package form floors: a file calls
// functions and methods of files below it, and none of those calls back, itself or through
// others. Move a function to the file of what it works on, or split a file.
func TestFilesCallDown(t *testing.T) {
	for _, p := range product(t) {
		for _, pair := range callsUp(p) {
			t.Errorf("%s: %s, which calls back", p.PkgPath, pair)
		}
	}
}

// product returns the packages of the product, with their syntax and types.
func product(t *testing.T) (found []*packages.Package) {
	t.Helper()
	loaded, err := loadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		folder := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")
		if isProduct("../../" + folder + "/file.go") {
			found = append(found, p)
		}
	}
	if len(found) < 70 {
		t.Fatalf("only %d packages were found", len(found))
	}
	return found
}

// loadAll loads all packages, once.
var loadAll = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{Dir: "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedExportFile | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule}, "./...")
})

// callsUp returns the pairs of files of which the first calls the second, and the second the
// first, perhaps through others.
func callsUp(p *packages.Package) (up []string) {
	calls := map[string]map[string]bool{}
	fileOf := func(n interface{ Pos() token.Pos }) string { return filepath.Base(p.Fset.Position(n.Pos()).Filename) }
	for _, f := range p.Syntax {
		from := fileOf(f)
		calls[from] = map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, _ := n.(*ast.Ident)
			if id == nil {
				return true
			}
			if fn, ok := p.TypesInfo.Uses[id].(*types.Func); ok && fn.Pkg() == p.Types && !isAbstract(fn) && fileOf(fn) != from {
				calls[from][fileOf(fn)] = true
			}
			return true
		})
	}
	for from, all := range calls {
		for to := range all {
			if reaches(calls, to, from, map[string]bool{}) {
				up = append(up, fmt.Sprintf("%s calls %s", from, to))
			}
		}
	}
	slices.Sort(up)
	return up
}

// isAbstract reports whether fn is a method of an interface.
func isAbstract(fn *types.Func) bool {
	of := fn.Signature().Recv()
	return of != nil && types.IsInterface(of.Type())
}

// reaches reports whether calls lead from one file to another.
func reaches(calls map[string]map[string]bool, from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	if calls[from][to] {
		return true
	}
	for next := range calls[from] {
		if reaches(calls, next, to, seen) {
			return true
		}
	}
	return false
}
