package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/check"
)

// A route whose path is written as other routers have it is warned of, as no request
// takes it, and one that requests take is not.
func TestRoutesThatNeverMatch(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "weir.yaml")
		text := "upstream: http://127.0.0.1:1\nroutes:\n  - {path: '" + path + "', limit: 5/minute}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs := check.FindFaults(file)
		if got := errs.Error(); got == "" && want != "" || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: no %q in: %s", path, want, got)
		}
	}
	for _, path := range []string{"/", "/*", "/users/{id}", "/users/{id}/*", "/v1/a:cancel", "/Products(1)", "/a.b", "/a+b", "/$metadata", "/a<b", "/a/:/b", "/{a}/<>"} {
		f(path, "")
	}
	f("/users/:id", `warning: routes[0]: the path "/users/:id" never matches: it looks like the parameter of another router (write {id} for any one segment)`)
	f("/users/:id/orders", "(write {id} for any one segment)")
	f("/users/<id>", "(write {id} for any one segment)")
	f("/users/<int:id>/*", "(write {id} for any one segment)")
	for _, path := range []string{"/login$", "/users/[0-9]+", "/a/(b|c)", "/a/(?:b)", "/a/.+", "/a/.*/b"} {
		f(path, "it looks like a regular expression (write {name} for any one segment, and /* at the end for all that is below)")
	}
}

// A fault of a whole file names it once, and where it is if that is known.
func TestCheckConfigNamesTheFileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	for text, want := range map[string]string{
		"limits: [5/minute]\n---\nlimits: [5/minute]\n": file + ":2:1: a second document begins here (give each document a file of its own)",
		"http: {listen: \n":                             file + ":1: not YAML: did not find expected node content",
		"htp: {}\n":                                     file + `:1:1: unknown key "htp" (did you mean "http"?)`,
		"http: 8080":                                    file + ":1:7: http must hold keys and values (write http: {listen: 8080})",
		"a: b: c\n":                                     file + ":1: not YAML: mapping values",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs := check.FindFaults(file); !strings.HasPrefix(errs.Error(), want) || strings.Count(errs.Error(), file) != 1 {
			t.Errorf("%q: %v, want %s", text, errs, want)
		}
	}
}
