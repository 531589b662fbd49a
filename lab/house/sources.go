package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sources are the Go files of the repository without tests and generated files.
type sources struct {
	fset  *token.FileSet
	files []source
}

// A source is one file.
type source struct {
	path string
	code int // lines that have code
	ast  *ast.File
}

// proving lists the folders that prove the product and are no part of it.
var proving = []string{"lab", "internal/testing", "internal/arch", "internal/protocol", "internal/history", "store/storetest", "examples", "tools", "client/browser/chromium", "internal/insight/dashboard/chromium"}

// sharedStore lists the folders of the shared store and of what it stands on.
var sharedStore = []string{"store/shared", "store/region", "store/internal"}

func isIn(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(path, f+"/") })
}

func isProduct(path string) bool     { return !isIn(path, proving) }
func isSharedStore(path string) bool { return isIn(path, sharedStore) }

// readSources reads all files below root.
func readSources(root string) (*sources, error) {
	s := &sources{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "testdata"}, d.Name()) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(f) {
			s.files = append(s.files, source{filepath.ToSlash(path), codeLines(text), f})
		}
		return nil
	})
	return s, err
}

// codeLines returns how many lines of a file are neither blank nor comment only.
func codeLines(text []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0) // comments are skipped
	seen := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(seen)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		for l := range 1 + bytes.Count([]byte(literal), []byte("\n")) {
			seen[first+l] = true
		}
	}
}

// codeLines returns the code lines of the files that are meant.
func (s *sources) codeLines(meant func(path string) bool) (n int) {
	for _, f := range s.files {
		if meant(f.path) {
			n += f.code
		}
	}
	return n
}

// public returns how many packages programs outside the module can import, and how many
// exported declarations they have: names of the package, and methods of exported types.
func (s *sources) public() (packages, exported int) {
	seen := map[string]bool{}
	for _, f := range s.files {
		if !isPublic(f.path) || f.ast.Name.Name == "main" {
			continue
		}
		seen[filepath.ToSlash(filepath.Dir(f.path))] = true
		for _, d := range f.ast.Decls {
			exported += countExported(d)
		}
	}
	return len(seen), exported
}

// isPublic reports whether programs outside the module can import the package of a file.
func isPublic(path string) bool {
	folder := filepath.ToSlash(filepath.Dir(path))
	return !isIn(path, []string{"internal", "lab", "examples", "tools"}) && !strings.Contains(folder, "internal/") && !strings.Contains(folder, "/chromium")
}

func countExported(d ast.Decl) (n int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return 1
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return "?"
}

// largestType returns the type of the product with the most methods.
func (s *sources) largestType() (name string, methods int) {
	count := map[string]int{}
	for _, f := range s.files {
		if !isProduct(f.path) {
			continue
		}
		for _, d := range f.ast.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Recv == nil {
				continue
			}
			t := filepath.ToSlash(filepath.Dir(f.path)) + "." + receiver(d)
			count[t]++
			if count[t] > methods {
				name, methods = t, count[t]
			}
		}
	}
	return name, methods
}

// longestFunction returns the product's longest function.
func (s *sources) longestFunction() (name string, length int) {
	for _, f := range s.files {
		if !isProduct(f.path) {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				n := s.fset.Position(d.End()).Line - s.fset.Position(d.Pos()).Line + 1
				if n > length {
					name, length = f.path+" "+d.Name.Name, n
				}
			}
		}
	}
	return name, length
}

// mutants returns how many breakages of the code are known: each is killed by a test.
func (s *sources) mutants() int {
	table, err := os.ReadFile("lab/mutants/mutants.txt")
	if err != nil {
		panic(err) // of a file of the repository
	}
	return strings.Count(string(table), "\nkill ")
}

// written finds the parts of a page that a command writes, from the mark before to the mark after.
var written = regexp.MustCompile(`(?s)<!-- .*?<!-- end[^>]*-->`)

// words returns how many words the Markdown files of paths have, folders included. Generated
// pages (docs/reference/generated), parts of pages that a command writes between marks, and
// the decisions do not count.
func words(paths ...string) (n int, err error) {
	for _, root := range paths {
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" || isIn(filepath.ToSlash(path), []string{"docs/reference/generated", "docs/decisions"}) {
				return err
			}
			text, err := os.ReadFile(path)
			n += len(bytes.Fields(written.ReplaceAll(text, nil)))
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
