package main

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What has been told in many copies: matchers of limits, structs that name one, answers that
// are filled by their fields.

// matchers returns how many types of the product implement weir.Rules.
func (s *sources) matchers() (n int) {
	s.eachFunction(func(_ string, d *ast.FuncDecl) {
		if d.Recv != nil && d.Name.Name == "Match" && len(d.Type.Params.List) == 2 && isSliceOf(d.Type.Params.List[0].Type, "Op") {
			n++
		}
	})
	return n
}

// isSliceOf reports whether a type is a slice of the named one, of whatever package.
func isSliceOf(t ast.Expr, name string) bool {
	a, ok := t.(*ast.ArrayType)
	return ok && a.Len == nil && nameOf(a.Elt) == name
}

// nameOf returns the last word of a name, empty for any other expression.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// limitNames returns how many structs of the product hold a domain, a rule and a limit.
func (s *sources) limitNames() (n int) {
	for _, f := range s.files {
		if !isProduct(f.path) {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			if st, ok := node.(*ast.StructType); ok && hasFields(st, "domain", "rule", "limit") {
				n++
			}
			return true
		})
	}
	return n
}

// hasFields reports whether a struct has fields of these names, in any case.
func hasFields(st *ast.StructType, names ...string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool {
			return slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return strings.EqualFold(id.Name, name) })
		}) {
			return false
		}
	}
	return true
}

// filledAnswers returns in how many places of the product a field of an op's answer is set.
func (s *sources) filledAnswers() (n int) {
	for _, f := range s.files {
		if !isProduct(f.path) {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			if a, ok := node.(*ast.AssignStmt); ok {
				for _, to := range a.Lhs {
					if field, ok := to.(*ast.SelectorExpr); ok && nameOf(field.X) == "Answer" {
						n++
					}
				}
			}
			return true
		})
	}
	return n
}

// largePackages returns how many packages of the product have more than 40 files.
func (s *sources) largePackages() (n int) {
	files := map[string]int{}
	for _, f := range s.files {
		if isProduct(f.path) {
			files[filepath.Dir(f.path)]++
		}
	}
	for _, has := range files {
		if has > 40 {
			n++
		}
	}
	return n
}

// unusable returns how many functions of public packages have a type of internal/ in their
// signature: nobody outside can call them.
func (s *sources) unusable() (n int) {
	s.eachFunction(func(path string, d *ast.FuncDecl) {
		if !isPublic(path) || !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
			return
		}
		internal := s.internalImports(path)
		found := false
		ast.Inspect(d.Type, func(node ast.Node) bool {
			if sel, ok := node.(*ast.SelectorExpr); ok && slices.Contains(internal, nameOf(sel.X)) {
				found = true
			}
			return true
		})
		if found {
			n++
		}
	})
	return n
}

// internalImports returns the names of the packages of internal/ that a file imports.
func (s *sources) internalImports(path string) (names []string) {
	i := slices.IndexFunc(s.files, func(f source) bool { return f.path == path })
	for _, im := range s.files[i].ast.Imports {
		folder := strings.Trim(im.Path.Value, `"`)
		if !strings.Contains(folder, "/internal/") {
			continue
		}
		name := filepath.Base(folder)
		if im.Name != nil {
			name = im.Name.Name
		}
		names = append(names, name)
	}
	return names
}

// shortNames returns which share of the product's functions, in percent, have a name of six
// letters or fewer.
func (s *sources) shortNames() int {
	short, all := 0, 0
	s.eachFunction(func(path string, d *ast.FuncDecl) {
		if all++; len(d.Name.Name) <= 6 {
			short++
		}
	})
	return 100 * short / max(all, 1)
}

// eachFunction calls do with each function of the product and its file.
func (s *sources) eachFunction(do func(path string, d *ast.FuncDecl)) {
	for _, f := range s.files {
		if !isProduct(f.path) {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				do(f.path, d)
			}
		}
	}
}

// requirements returns how many modules go.mod requires directly.
func requirements() (n int, err error) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return 0, err
	}
	isIn := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "require ("):
			isIn = true
		case line == ")":
			isIn = false
		case isIn && line != "" && !strings.HasSuffix(line, "// indirect"), strings.HasPrefix(line, "require ") && !isIn:
			n++
		}
	}
	return n, nil
}
