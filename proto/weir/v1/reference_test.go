package weirpb

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:generate go test . -run ^TestReference$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/grpc.md")

// comments returns the comments of the types of a generated file, of their fields and methods,
// by names such as Entry and Entry.Key.
func comments(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok {
			return true
		}
		for _, spec := range decl.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			found[typ.Name.Name] = inOneLine(decl.Doc)
			var fields *ast.FieldList
			switch of := typ.Type.(type) {
			case *ast.StructType:
				fields = of.Fields
			case *ast.InterfaceType:
				fields = of.Methods
			default:
				continue
			}
			for _, f := range fields.List {
				for _, name := range f.Names {
					found[typ.Name.Name+"."+name.Name] = strings.TrimSpace(inOneLine(f.Doc) + " " + inOneLine(f.Comment))
				}
			}
		}
		return true
	})
	return found
}

func inOneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

// goName returns the name of a field in Go: retry_after_us is RetryAfterUs.
func goName(f protoreflect.FieldDescriptor) string {
	var b strings.Builder
	for part := range strings.SplitSeq(string(f.Name()), "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// formOf returns the form of a field in a word or two.
func formOf(f protoreflect.FieldDescriptor) string {
	form := f.Kind().String()
	if f.Message() != nil {
		name := string(f.Message().Name())
		form = "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	switch {
	case f.IsList():
		return "repeated " + form
	case f.HasOptionalKeyword():
		return "optional " + form
	}
	return form
}

// TestReference: docs/reference/generated/grpc.md is made of the descriptors of weir.proto, and of
// its comments, which protoc writes into the generated code.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/generated/grpc.md"
	methods, messages := comments(t, "weir_grpc.pb.go"), comments(t, "weir.pb.go")
	service := File_weir_v1_weir_proto.Services().ByName("LimitService")
	var b strings.Builder
	b.WriteString("# Methods and messages of weir.v1\n\nMade by `make docs` from [weir.proto](../../../proto/weir/v1/weir.proto). [gRPC](../grpc.md) explains them. " +
		"Durations are in microseconds.\n\n## " + string(service.FullName()) + "\n\n| method | request | response | effect |\n|---|---|---|---|\n")
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		effect := methods["LimitServiceClient."+string(m.Name())]
		if effect == "" {
			t.Errorf("weir.proto: method %s has no comment", m.Name())
		}
		in, out := string(m.Input().Name()), string(m.Output().Name())
		fmt.Fprintf(&b, "| `%s` | [%s](#%s) | [%s](#%s) | %s |\n", m.Name(), in, strings.ToLower(in), out, strings.ToLower(out), effect)
	}
	described := 0
	all := File_weir_v1_weir_proto.Messages()
	for i := range all.Len() {
		m := all.Get(i)
		fmt.Fprintf(&b, "\n## %s\n\n", m.Name())
		if text := messages[string(m.Name())]; text != "" {
			b.WriteString(text + "\n\n")
		}
		if m.Fields().Len() == 0 {
			b.WriteString("It has no fields.\n")
			continue
		}
		b.WriteString("| field | form | meaning |\n|---|---|---|\n")
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			text, ok := messages[string(m.Name())+"."+goName(f)]
			if !ok {
				t.Errorf("the generated code has no field %s of %s", goName(f), m.Name())
			}
			if text != "" {
				described++
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name(), formOf(f), text)
		}
	}
	if described < 60 {
		t.Errorf("only %d fields have comments: does protoc still write them?", described)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}
