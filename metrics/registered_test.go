package metrics_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryMetricIsDocumented: each metric that product code names to the Prometheus library, of
// whatever component and in whatever state it appears, is on a page: weir_... in the table of
// docs/reference/generated/metrics.md, the others anywhere.
func TestEveryMetricIsDocumented(t *testing.T) {
	pages := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(text)
	}
	folders := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"../lab", "../tools", "../internal/testing", "../.git"}, filepath.ToSlash(path)), d.Name() == "node_modules":
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			folders[filepath.Dir(path)] = true
		case filepath.Ext(path) == ".md" && strings.HasPrefix(filepath.ToSlash(path), "../docs/"):
			read(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]token.Position{}
	for folder := range folders {
		maps.Copy(names, registered(t, folder))
	}
	table := pages[filepath.FromSlash("../docs/reference/generated/metrics.md")]
	everything := strings.Join(slices.Collect(maps.Values(pages)), "\n")
	for name, at := range names {
		if strings.HasPrefix(name, "weir_") && !strings.Contains(table, "\n| `"+name+"` |") {
			t.Errorf("%s: %s is not in docs/reference/generated/metrics.md: let TestDocs gather it", at, name)
		} else if !strings.Contains(everything, "`"+name+"`") {
			t.Errorf("%s: no page below docs/ has %s", at, name)
		}
	}
	if rows := strings.Count(table, "\n| `weir_"); len(names) < rows {
		t.Errorf("%d metrics in the code, %d in the table: does the test still find all?", len(names), rows)
	}
}

// naming is a function that gives one of its arguments, after a prefix, to the library as the name
// of a metric.
type naming struct {
	arg    int
	prefix string
}

// registered returns the names that the package in a folder gives to the Prometheus library, with
// where it does so: literally, or as an argument of a function or method of its own.
func registered(t *testing.T, folder string) map[string]token.Position {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set, names, functions := token.NewFileSet(), map[string]token.Position{}, map[string]naming{}
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	// The first round finds the functions, the second their calls.
	for range 2 {
		for _, file := range parsed {
			for _, d := range file.Decls {
				function, _ := d.(*ast.FuncDecl)
				ast.Inspect(d, func(n ast.Node) bool {
					x, prefix := nameOf(n, functions)
					if x == nil {
						return true
					}
					if sum, ok := x.(*ast.BinaryExpr); ok {
						prefix, x = prefix+literal(sum.X), sum.Y
					}
					if text := literal(x); text != "" {
						names[prefix+text] = set.Position(x.Pos())
					} else if i := parameter(function, x); i >= 0 {
						functions[function.Name.Name] = naming{i, prefix}
					} else {
						t.Errorf("%s: the test cannot tell the name of this metric", set.Position(x.Pos()))
					}
					return true
				})
			}
		}
	}
	return names
}

// nameOf returns the expression for a metric's name, and what is put before it, if n makes a metric.
func nameOf(n ast.Node, functions map[string]naming) (x ast.Expr, prefix string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if ofLibrary(n.Fun, "NewDesc") {
			return n.Args[0], ""
		}
		called := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			called = f.Name
		case *ast.SelectorExpr:
			called = f.Sel.Name
		}
		if of, ok := functions[called]; ok {
			return n.Args[of.arg], of.prefix
		}
	case *ast.CompositeLit:
		if n.Type == nil || !ofLibrary(n.Type, "Opts") {
			return nil, ""
		}
		for _, e := range n.Elts {
			switch kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name {
			case "Name":
				x = kv.Value
			case "Namespace", "Subsystem":
				return n, "" // parts of a name
			}
		}
		return x, ""
	}
	return nil, ""
}

// ofLibrary reports whether x is a name of the Prometheus library with such an end.
func ofLibrary(x ast.Expr, end string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	in, ok := s.X.(*ast.Ident)
	return ok && in.Name == "prometheus" && strings.HasSuffix(s.Sel.Name, end)
}

// parameter returns which parameter of a function x is, -1 for none.
func parameter(function *ast.FuncDecl, x ast.Expr) int {
	name, ok := x.(*ast.Ident)
	if !ok || function == nil {
		return -1
	}
	i := 0
	for _, field := range function.Type.Params.List {
		for _, p := range field.Names {
			if p.Name == name.Name {
				return i
			}
			i++
		}
	}
	return -1
}

// literal returns the value of a literal string, empty for another expression.
func literal(x ast.Expr) string {
	if l, ok := x.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}
