package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// apply returns the file under root that m changes, and its text after the
// change. It fails unless m names one declaration, and one text in it, and the
// result is Go.
func (m mutant) apply(root string) (file string, text []byte, err error) {
	name, begin, end, err := m.find(root)
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(root, m.dir, name)
	if text, err = os.ReadFile(file); err != nil {
		return "", nil, err
	}
	at := pattern(m.was).FindAllIndex(text[begin:end], -1)
	if len(at) != 1 {
		return "", nil, fmt.Errorf("mutant %s: %q occurs %d times in it, not once: write the expression as it stands in %s now, with more of what surrounds it if it occurs twice", m, m.was, len(at), name)
	}
	text = []byte(string(text[:begin+at[0][0]]) + m.now + string(text[begin+at[0][1]:]))
	if strings.HasSuffix(name, ".go") {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return "", nil, fmt.Errorf("mutant %s: the result is not Go: correct what replaces %q: %w", m, m.was, err)
		}
	}
	return file, text, nil
}

// pattern matches a text whatever the white space in it, between whole words.
func pattern(text string) *regexp.Regexp {
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	p := strings.Join(words, `\s+`)
	word := regexp.MustCompile(`^\w`)
	if word.MatchString(text) {
		p = `\b` + p
	}
	if word.MatchString(text[len(text)-1:]) {
		p += `\b`
	}
	return regexp.MustCompile(p)
}

// find returns the file that declares what m names, and where the declaration
// begins and ends in it.
func (m mutant) find(root string) (file string, begin, end int, err error) {
	if name, function, _ := strings.Cut(m.decl, ":"); strings.HasSuffix(name, ".lua") {
		return m.findScript(root, name, function)
	}
	files, err := filepath.Glob(filepath.Join(root, m.dir, "*.go"))
	if err != nil {
		return "", 0, 0, err
	}
	last := m.decl[strings.LastIndexByte(m.decl, '.')+1:]
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			return "", 0, 0, err
		}
		if !bytes.Contains(text, []byte(last)) {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, f, text, parser.SkipObjectResolution)
		if err != nil {
			return "", 0, 0, err
		}
		for _, node := range declared(tree, m.decl) {
			file, begin, end = filepath.Base(f), set.Position(node.Pos()).Offset, set.Position(node.End()).Offset
			found++
		}
	}
	if found != 1 {
		return "", 0, 0, fmt.Errorf("mutant %s: %d declarations of that name, not one: find where its promise is kept now and name that function, or remove the entry", m, found)
	}
	return file, begin, end, nil
}

// declared returns the functions, or the declarations of values, with a name.
func declared(tree *ast.File, name string) (nodes []ast.Node) {
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if functionName(d) == name {
				nodes = append(nodes, d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				v, ok := s.(*ast.ValueSpec)
				for i := 0; ok && i < len(v.Names); i++ {
					if v.Names[i].Name == name {
						nodes = append(nodes, v)
					}
				}
			}
		}
	}
	return nodes
}

// functionName returns the name of d, after that of the type whose method it is.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	for t := d.Recv.List[0].Type; ; {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// findScript returns where a function of a script begins and ends; without a
// name of a function, the whole script.
func (m mutant) findScript(root, name, function string) (file string, begin, end int, err error) {
	text, err := os.ReadFile(filepath.Join(root, m.dir, name))
	if err != nil {
		return "", 0, 0, fmt.Errorf("mutant %s: name the script that keeps its promise now, or remove the entry: %w", m, err)
	}
	if function == "" {
		return name, 0, len(text), nil
	}
	at := regexp.MustCompile(`(?ms)^local function `+regexp.QuoteMeta(function)+`\(.*?^end$`).FindAllIndex(text, -1)
	if len(at) != 1 {
		return "", 0, 0, fmt.Errorf("mutant %s: %d functions of that name, not one: name the function that keeps its promise now, or remove the entry", m, len(at))
	}
	return name, at[0][0], at[0][1], nil
}
