package algorithm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever chooses an algorithm reads its comment: what it promises, what a key
// costs, and where that is from stand in each, and are not left to another's.
func TestCommentsSayWhatIsPromised(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if typ, ok := v.Type.(*ast.SelectorExpr); !ok || typ.Sel.Name != "Algorithm" || !v.Names[0].IsExported() {
					continue
				}
				found++
				doc := strings.Join(strings.Fields(g.Doc.Text()), " ")
				for _, want := range []string{"Guarantee: ", "State: ", "Source: "} {
					if !strings.Contains(doc, want) {
						t.Errorf("%s: the comment of %s has no %q", file, v.Names[0], want)
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d algorithms only", found)
	}
}
