package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesExist checks every `name` in docs/ARCHITECTURE.md that
// looks like a folder or a Go identifier.
func TestArchitectureNamesExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	identifier := regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(\.[A-Z]\w*)?$`)
	folder := regexp.MustCompile(`^[a-z]+(/[a-z]*)*$`)
	declared := map[string]map[string]bool{}
	checked := 0
	// TestWalks checks the stays of the walks, which may be unexported.
	rest := regexp.MustCompile(`(?m)^- \*\*.+:\*\* .+$`).ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(rest, -1) {
		name := m[1]
		switch {
		case identifier.MatchString(name):
			checked++
			part := identifier.FindStringSubmatch(name)
			if declared[part[1]] == nil {
				declared[part[1]] = declarations(t, folderOf(t, part[1]))
			}
			if want := part[2] + part[3]; !declared[part[1]][want] {
				t.Errorf("%s: no %s in package %s", name, want, part[1])
			}
		case folder.MatchString(name) && name != "weir" && name != "code":
			checked++
			if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
				t.Errorf("%s: no such folder", name)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were recognised: the pattern no longer fits the page", checked)
	}
}

// TestLinksExist checks every relative link of every page: the file is there,
// and so is the heading.
func TestLinksExist(t *testing.T) {
	span := regexp.MustCompile("`[^`\n]*`")
	checked := 0
	for _, page := range pages(t) {
		text := span.ReplaceAllString(prose(t, page), "")
		for _, m := range relativeLink.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			checked++
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: dead link %s", page, m[1])
				continue
			}
			if heading != "" && !slices.Contains(headings(prose(t, path)), heading) {
				t.Errorf("%s: %s has no heading #%s", page, path, heading)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were found: does the pattern still fit?", checked)
	}
}

// TestNoOrphanPages: a reader who starts at docs/README.md reaches every page, picture and
// schema below docs/ by a link of that index or of an index that it links to.
func TestNoOrphanPages(t *testing.T) {
	const index = "../../docs/README.md"
	linked := map[string]bool{index: true}
	for _, page := range []string{index, "../../docs/decisions/README.md"} {
		addLinked(t, linked, page)
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "../../docs/") && !linked[page] {
			t.Errorf("%s is not in the index docs/README.md", page)
		}
	}
	for page := range linked {
		if filepath.Ext(page) == ".md" {
			addLinked(t, linked, page)
		}
	}
	files := 0
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
			if !linked[path] {
				t.Errorf("no page links to %s", path)
			}
		}
		return err
	})
	if err != nil || files < 40 {
		t.Errorf("%d files, %v", files, err)
	}
}

// addLinked adds the files that a page links to.
func addLinked(t *testing.T, linked map[string]bool, page string) {
	t.Helper()
	for _, m := range relativeLink.FindAllStringSubmatch(prose(t, page), -1) {
		target, _, _ := strings.Cut(m[1], "#")
		linked[filepath.Join(filepath.Dir(page), target)] = true
	}
}

// relativeLink finds the target of a link.
var relativeLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// pages returns every Markdown file that belongs to the project.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) < 10 {
		t.Fatalf("found %d pages, %v", len(out), err)
	}
	return out
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(regexp.MustCompile("(?s)```.*?```").ReplaceAll(text, nil))
}

// headings returns the anchors that a page's headings make: lower case, words
// joined by hyphens, without punctuation.
func headings(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(text, -1) {
		words := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		out = append(out, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(words, ""))
	}
	return out
}

// folderOf returns the folder of the package of the given name.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	if name == "weir" {
		return "../.."
	}
	for _, folders := range floors {
		for _, folder := range folders {
			if filepath.Base(folder) == name {
				return filepath.Join("../..", folder)
			}
		}
	}
	t.Errorf("no package %s", name)
	return ""
}

// declarations returns the exported names of a package, methods and fields as
// Type.Name.
func declarations(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(names, spec)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

func addSpec(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			names[id.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch typ := s.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		}
		if fields == nil {
			return
		}
		for _, f := range fields.List {
			for _, id := range f.Names {
				names[s.Name.Name+"."+id.Name] = true
			}
		}
	}
}
