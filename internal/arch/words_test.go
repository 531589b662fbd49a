package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// retiredFile lists the retired words, one a line with the number of declarations that
// still have it. docs/GLOSSARY.md has the words to write instead.
const retiredFile = "testdata/retired.txt"

var update = flag.Bool("update", false, "lower the counts in "+retiredFile)

// TestRetiredWords counts the declarations whose name has a retired word as a camel-case
// part. A count may only fall: a new declaration fails the test, and so does a count that
// was not lowered with the code. With -update the counts are lowered, never raised; the
// markers of a merge conflict in the file are resolved by it too.
func TestRetiredWords(t *testing.T) {
	found := map[string][]string{}
	for _, file := range goFiles(t) {
		for _, name := range declaredNames(t, file) {
			seen := map[string]bool{}
			for _, word := range wordsOf(name) {
				if !seen[word] {
					found[word] = append(found[word], file+": "+name)
				}
				seen[word] = true
			}
		}
	}
	if len(found) < 1000 {
		t.Fatalf("only %d words were found", len(found))
	}
	order, allowed := readRetired(t)
	var lowered strings.Builder
	for _, word := range order {
		count := len(found[word])
		switch {
		case count > allowed[word]:
			t.Errorf("%q is declared %d times, %d are allowed: use the word of docs/GLOSSARY.md instead\n\t%s",
				word, count, allowed[word], strings.Join(found[word], "\n\t"))
		case count < allowed[word] && !*update:
			t.Errorf("%q is declared %d times, %s says %d: run go test ./internal/arch -run TestRetiredWords -update",
				word, count, retiredFile, allowed[word])
		}
		fmt.Fprintf(&lowered, "%s %d\n", word, min(count, allowed[word]))
	}
	if *update {
		if err := os.WriteFile(retiredFile, []byte(lowered.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readRetired returns the retired words in order and the count of each, the lower one
// where the two sides of a merge conflict differ.
func readRetired(t *testing.T) (order []string, allowed map[string]int) {
	t.Helper()
	text, err := os.ReadFile(retiredFile)
	if err != nil {
		t.Fatal(err)
	}
	allowed = map[string]int{}
	for line := range strings.Lines(string(text)) {
		if *update && strings.ContainsRune("<=>|", rune(line[0])) {
			continue
		}
		var word string
		var count int
		if _, err := fmt.Sscanf(line, "%s %d", &word, &count); err != nil || word != strings.ToLower(word) {
			t.Fatalf("%s: cannot read %q: %v; resolve a merge conflict with -update", retiredFile, line, err)
		}
		if old, ok := allowed[word]; !ok {
			order = append(order, word)
		} else if !*update {
			t.Fatalf("%s lists %q twice", retiredFile, word)
		} else {
			count = min(count, old)
		}
		allowed[word] = count
	}
	return order, allowed
}

// goFiles returns the Go files of the repository but tests.
func goFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// declaredNames returns the names of all functions, types, fields, variables, constants
// and parameters that a file declares, none if it is generated.
func declaredNames(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(f) {
		return nil
	}
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok && id != nil {
				names = append(names, id.Name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.Field:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

// wordsOf splits a name at its capitals and underscores: "HTTPAway_told2" is http, away,
// told2.
func wordsOf(name string) (words []string) {
	letters, start := []rune(name), 0
	for i := 1; i <= len(letters); i++ {
		atCapital := i < len(letters) && unicode.IsUpper(letters[i]) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if i == len(letters) || letters[i] == '_' || atCapital {
			words = append(words, strings.ToLower(strings.Trim(string(letters[start:i]), "_")))
			start = i
		}
	}
	return words
}
