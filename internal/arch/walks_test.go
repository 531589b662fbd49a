package arch

import (
	"go/ast"
	"go/types"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// walks is what docs/ARCHITECTURE.md is to walk, by the words before the colon: how many
// queues may lie between its stays, how many stays it may have (0: any number), and how many
// of them may be in some packages.
var walks = map[string]struct {
	queues   int
	most     int
	within   []string
	mostHere int
}{
	// The pointer to the set that is in force.
	"A line of YAML to its counter":    {queues: 1},
	"HTTP check to memory":             {},
	"gRPC to Redis, strict":            {queues: 1, most: 18, within: []string{"shared", "transport"}, mostHere: 11},
	"gRPC, leased, warm":               {within: []string{"shared", "leased"}, mostHere: 6},
	"Gateway request, charge adjusted": {},
	// The ring, the outbox, the queue between processes, and the transaction.
	"Decision to a row of analytics": {queues: 4},
}

// TestWalks follows the calls of each walk of docs/ARCHITECTURE.md: every stay is a function
// that calls the next one directly, through an interface that the next one's receiver
// implements, or through a function value in a field. Where the page says (queue) a queue or
// a goroutine lies between. A part of a walk after a semicolon begins at an earlier stay.
func TestWalks(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := loadCalls(t)
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(.+):\*\* (.+)$`).FindAllStringSubmatch(string(text), -1) {
		want, isKnown := walks[m[1]]
		if !isKnown {
			t.Errorf("the walk %q is not in the table of this test", m[1])
			continue
		}
		seen++
		stays, queues := calls.follow(t, m[1], m[2])
		if queues > want.queues {
			t.Errorf("%s: %d queues, want at most %d", m[1], queues, want.queues)
		}
		if want.most > 0 && len(stays) > want.most {
			t.Errorf("%s: %d stays, want at most %d", m[1], len(stays), want.most)
		}
		here := 0
		for _, pkg := range want.within {
			for _, stay := range stays {
				if strings.HasPrefix(stay, pkg+".") {
					here++
				}
			}
		}
		if here > want.mostHere {
			t.Errorf("%s: %d stays in %v, want at most %d", m[1], here, want.within, want.mostHere)
		}
	}
	if seen != len(walks) {
		t.Errorf("the page has %d walks, want %d", seen, len(walks))
	}
}

// walkPattern finds a stay and what is before it.
var walkPattern = regexp.MustCompile("(; |, | -> \\(queue\\) |)`([^`]+)`")

// follow checks the hops of a walk, and returns its stays and how many queues it has.
func (c *callGraph) follow(t *testing.T, walk, text string) (stays []string, queues int) {
	t.Helper()
	known, before, found := map[string]bool{}, "", 0
	for i, m := range walkPattern.FindAllStringSubmatch(text, -1) {
		found++
		hop, stay := m[1], m[2]
		switch {
		case c.functions[stay] == nil:
			t.Errorf("%s: there is no function %s", walk, stay)
		case i == 0:
		case hop == "; ":
			if !known[stay] {
				t.Errorf("%s: the part at %s begins at no earlier stay", walk, stay)
			}
		case hop == " -> (queue) ":
			queues++
		case hop != ", ":
			t.Errorf("%s: no comma before %s", walk, stay)
		case c.functions[before] != nil && !c.isCall(c.functions[before], c.functions[stay]):
			t.Errorf("%s: %s does not call %s", walk, before, stay)
		}
		if !known[stay] {
			stays = append(stays, stay)
		}
		known[stay], before = true, stay
	}
	if len(stays) < 5 || strings.Count(text, "`") != 2*found {
		t.Errorf("%s: only %d stays were found: does the pattern still fit?", walk, len(stays))
	}
	return stays, queues
}

// A callGraph is who calls what in the packages of the walks.
type callGraph struct {
	functions map[string]*types.Func          // by package.Type.name
	calls     map[types.Object][]types.Object // of a function, or of a field that holds one
}

// loadCalls reads the packages that the walks go through.
func loadCalls(t *testing.T) *callGraph {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{Dir: "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedExportFile | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo},
		".", "./algorithm", "./rules", "./limits", "./store/memory", "./store/redis", "./store/shared", "./store/internal/transport", "./store/internal/leased",
		"./store/internal/lot", "./internal/frontend/httpapi", "./internal/frontend/grpcapi", "./internal/frontend/gateway",
		"./middleware/http", "./internal/admit", "./internal/insight/event", "./internal/insight/analytics", "./internal/insight/analytics/count",
		"./internal/insight/analytics/rows", "./internal/insight/analytics/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	c := &callGraph{functions: map[string]*types.Func{}, calls: map[types.Object][]types.Object{}}
	for _, pkg := range loaded {
		for _, err := range pkg.Errors {
			t.Fatal(err)
		}
		for _, file := range pkg.Syntax {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
					fn := pkg.TypesInfo.Defs[f.Name].(*types.Func)
					c.functions[pkg.Name+"."+receiver(f)+f.Name.Name] = fn
					c.addCalls(pkg.TypesInfo, fn, f.Body)
				}
			}
			c.addFields(pkg.TypesInfo, file)
		}
	}
	return c
}

// addCalls notes what a body calls, function literals in it included, but for what it only
// starts on another goroutine.
func (c *callGraph) addCalls(info *types.Info, from types.Object, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if to := objectOf(info, call.Fun); to != nil {
				c.calls[from] = append(c.calls[from], to)
			}
		}
		return true
	})
}

// addFields notes the functions that are stored in fields.
func (c *callGraph) addFields(info *types.Info, file *ast.File) {
	store := func(field, value ast.Expr) {
		to, ok := objectOf(info, field).(*types.Var)
		if !ok || !to.IsField() {
			return
		}
		if lit, ok := value.(*ast.FuncLit); ok {
			c.addCalls(info, to, lit.Body)
		} else if f := objectOf(info, value); f != nil {
			c.calls[to] = append(c.calls[to], f)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					store(n.Lhs[i], n.Rhs[i])
				}
			}
		case *ast.KeyValueExpr:
			store(n.Key, n.Value)
		}
		return true
	})
}

// objectOf returns the function or variable that an expression names, nil for none.
func objectOf(info *types.Info, e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return info.Uses[e]
	case *ast.SelectorExpr:
		return info.Uses[e.Sel]
	case *ast.IndexExpr: // of a generic function
		return objectOf(info, e.X)
	}
	return nil
}

// isCall reports whether from calls to.
func (c *callGraph) isCall(from types.Object, to *types.Func) bool {
	for _, called := range c.calls[from] {
		switch called := called.(type) {
		case *types.Func:
			if called.Origin() == to || implements(to, called) {
				return true
			}
		case *types.Var:
			if called.IsField() && c.isCall(called, to) {
				return true
			}
		}
	}
	return false
}

// implements reports whether f is the method that a value of its receiver has for the
// method of an interface.
func implements(f, method *types.Func) bool {
	of, is := f.Signature().Recv(), method.Signature().Recv()
	if of == nil || is == nil || f.Name() != method.Name() {
		return false
	}
	i, ok := is.Type().Underlying().(*types.Interface)
	return ok && types.Implements(of.Type(), i)
}
