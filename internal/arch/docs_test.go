package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
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
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(text), -1) {
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

// folderOf returns the folder of the package of the given name.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	if name == "weir" {
		return "../.."
	}
	for _, pattern := range []string{"../../" + name, "../../*/" + name} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
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
