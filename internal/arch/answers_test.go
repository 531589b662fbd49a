package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestAnswersAreAssignedWhole looks whether a line of the product assigns a field of the
// answer of an op, or takes its address: what an earlier decision left in the others would be
// taken for the answer.
func TestAnswersAreAssignedWhole(t *testing.T) {
	at := func(p *packages.Package, n ast.Node) string {
		return strings.TrimPrefix(p.Fset.Position(n.Pos()).String(), "../../")
	}
	answers := 0
	for _, p := range product(t) {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				var to []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					to = n.Lhs
				case *ast.IncDecStmt:
					to = []ast.Expr{n.X}
				case *ast.RangeStmt:
					to = []ast.Expr{n.Key, n.Value}
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						to = []ast.Expr{n.X}
					}
				}
				for _, e := range to {
					switch whole, part := answerIn(p.TypesInfo, e); {
					case part:
						t.Errorf("%s: a part of the answer of an op is assigned: assign the whole", at(p, e))
					case whole:
						answers++
					}
				}
				return true
			})
		}
	}
	if answers < 20 {
		t.Errorf("only %d assignments of whole answers were found: does the test see them?", answers)
	}
}

// Answer.Set assigns every field of an answer.
func TestAnswersAreSetWhole(t *testing.T) {
	for _, p := range product(t) {
		if p.PkgPath != "github.com/weirlimit/weir" {
			continue
		}
		fields := p.Types.Scope().Lookup("Answer").Type().Underlying().(*types.Struct)
		left := map[string]bool{}
		for i := range fields.NumFields() {
			left[fields.Field(i).Name()] = true
		}
		for _, f := range p.Syntax {
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Name.Name != "Set" || fn.Recv == nil || types.ExprString(fn.Recv.List[0].Type) != "*Answer" {
					continue
				}
				for _, to := range fn.Body.List[0].(*ast.AssignStmt).Lhs {
					delete(left, to.(*ast.SelectorExpr).Sel.Name)
				}
			}
		}
		for name := range left {
			t.Errorf("Answer.Set leaves %s as it was", name)
		}
		return
	}
	t.Fatal("the root package was not read")
}

// answerIn reports whether an operand is the whole answer of an op, or a part of it.
func answerIn(info *types.Info, e ast.Expr) (whole, part bool) {
	inside := false // what was left of it is a selector or an index
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e, inside = x.X, true
		case *ast.SelectorExpr:
			s := info.Selections[x]
			if s == nil || s.Kind() != types.FieldVal {
				return false, false
			}
			// The fields on the way to the one that is selected, those of embedded structs too.
			of := s.Recv()
			for i, at := range s.Index() {
				if ptr, ok := of.Underlying().(*types.Pointer); ok {
					of = ptr.Elem()
				}
				field := of.Underlying().(*types.Struct).Field(at)
				if isRoot(of, "Op") && isRoot(field.Type(), "Answer") {
					part = inside || i < len(s.Index())-1
					return !part, part
				}
				of = field.Type()
			}
			e, inside = x.X, true
		default:
			return false, false
		}
	}
}

// isRoot reports whether t is the type of this name of the root.
func isRoot(t types.Type, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "github.com/weirlimit/weir"
}
