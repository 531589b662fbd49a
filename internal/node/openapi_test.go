package node_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics"
)

// mounts are the patterns under which a listener mounts handlers that have patterns of their own.
var mounts = []string{"/", "/v1/", "/ui/", "/v1/analytics/"}

// computed are the patterns that are computed, and where the test finds what they are: the paths
// of probes are arguments of addProbes, those of analytics are analytics.Paths.
var computed = map[string]int{"internal/node/readiness.go": 1, "internal/insight/analytics/handler.go": 1}

// registered returns the patterns that product code gives to muxes of the listeners for clients and
// operators, but for those of the API, which TestDocumentTellsOfEveryPath of httpapi checks.
func registered(t *testing.T) []string {
	t.Helper()
	patterns, notLiteral := analytics.Paths(), map[string]int{}
	for _, folder := range []string{"internal/node", "internal/frontend/*", "internal/insight/*"} {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/httpapi/") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				switch f := call.Fun.(type) {
				case *ast.Ident:
					if f.Name == "addProbes" {
						for _, arg := range call.Args[3:] {
							patterns = append(patterns, "GET "+literal(arg))
						}
					}
				case *ast.SelectorExpr:
					if len(call.Args) != 2 || f.Sel.Name != "Handle" && f.Sel.Name != "HandleFunc" {
						break
					}
					pattern := literal(call.Args[0])
					if of, isName := call.Args[0].(*ast.Ident); isName && of.Name == "analyticsPath" {
						pattern = "/v1/analytics/"
					}
					switch {
					case pattern == "":
						notLiteral[strings.TrimPrefix(name, "../../")]++
					case !slices.Contains(mounts, pattern):
						patterns = append(patterns, pattern)
					}
				}
				return true
			})
		}
	}
	for file, n := range notLiteral {
		if computed[file] != n {
			t.Errorf("%s: %d patterns are computed, want %d: the test must know what they are", file, n, computed[file])
		}
	}
	return patterns
}

// literal returns the value of a literal string, empty for another expression.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// TestDocumentHasEveryRoute: the OpenAPI document has every route of the listeners for clients and
// operators beside the API's, and no other. A route below a folder, such as GET /ui/assets/, is
// the path and whatever is one segment below it.
func TestDocumentHasEveryRoute(t *testing.T) {
	text, err := os.ReadFile("../frontend/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ Tags []string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	patterns := registered(t)
	for i, p := range patterns {
		patterns[i] = strings.TrimSuffix(p, "{$}")
	}
	lastSegment, used := regexp.MustCompile(`/\{[a-z]+\}$`), map[string]bool{}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if o.Tags == nil {
				continue // of the API
			}
			route := strings.ToUpper(method) + " " + path
			if !slices.Contains(patterns, route) {
				route = lastSegment.ReplaceAllString(route, "/")
			}
			if !slices.Contains(patterns, route) {
				t.Errorf("openapi.json has %s %s, which no listener serves", method, path)
			}
			used[route] = true
		}
	}
	for _, p := range patterns {
		if !used[p] {
			t.Errorf("openapi.json lacks %s", p)
		}
	}
	if len(patterns) < 30 {
		t.Errorf("only %d routes were found: %q", len(patterns), patterns)
	}
}
