package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxMethods is how many methods a type of the product may have: what one reader can hold
// in mind.
const maxMethods = 25

// TestMethods counts the methods of every type of the product. Split a type that has too
// many by its nouns, or make what only reads others' fields a function.
func TestMethods(t *testing.T) {
	count := map[string]int{}
	for _, file := range goFiles(t) {
		if !isProduct(file) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(f) {
			continue
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
				count[typeFolder(file, f)+"."+receiverOf(d)]++
			}
		}
	}
	if len(count) < 500 {
		t.Fatalf("only %d types with methods were found", len(count))
	}
	for of, n := range count {
		if n > maxMethods {
			t.Errorf("%s has %d methods, at most %d are allowed", of, n, maxMethods)
		}
	}
}

// isProduct reports whether a file is part of the product: what proves it is not.
func isProduct(file string) bool {
	for _, folder := range []string{"lab/", "examples/", "tools/", "store/storetest/", "internal/testing/", "internal/arch/", "internal/protocol/", "internal/history/",
		"client/browser/chromium/", "internal/insight/dashboard/chromium/"} {
		if strings.HasPrefix(filepath.ToSlash(file), "../../"+folder) {
			return false
		}
	}
	return true
}

// typeFolder returns the folder of a file in the repository, of the root the package's name.
func typeFolder(file string, f *ast.File) string {
	folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../..")
	if folder == "" {
		return f.Name.Name
	}
	return strings.TrimPrefix(folder, "/")
}

// receiverOf returns the name of a method's type.
func receiverOf(d *ast.FuncDecl) string {
	of := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && of == "" {
			of = id.Name
		}
		return of == ""
	})
	return of
}
