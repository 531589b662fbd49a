package arch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imported are the packages that fragments name.
var imported = map[string]string{
	"algorithm":  "github.com/weirlimit/weir/algorithm",
	"client":     "github.com/weirlimit/weir/client",
	"context":    "context",
	"fmt":        "fmt",
	"grpc":       "google.golang.org/grpc",
	"grpcclient": "github.com/weirlimit/weir/client/grpc",
	"grpclimit":  "github.com/weirlimit/weir/middleware/grpc",
	"http":       "net/http",
	"httplimit":  "github.com/weirlimit/weir/middleware/http",
	"memory":     "github.com/weirlimit/weir/store/memory",
	"redis":      "github.com/weirlimit/weir/store/redis",
	"shared":     "github.com/weirlimit/weir/store/shared",
	"weir":       "github.com/weirlimit/weir",
}

// surroundings declare what a fragment takes for granted.
const surroundings = `package blocks

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

var (
	ctx     context.Context
	limiter *weir.Limiter
	rules   weir.Rules
	m       *httplimit.Middleware
	mux     *http.ServeMux
	w       http.ResponseWriter
	r       *http.Request
	addr    string
)

func tooMany(time.Duration) error { return nil }
`

var (
	goBlock     = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	importBlock = regexp.MustCompile(`(?ms)^import \(\n(.*?)^\)\n`)
	selector    = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	indent      = regexp.MustCompile(`(?m)^\t+`)
	bareReturn  = regexp.MustCompile(`(?m)^\s*return(\s*//.*)?$`)
	unused      = regexp.MustCompile(`declared and not used|too many errors|^#`)
)

// TestCodeBlocksCompile: every block of Go in the README and the docs is a program, or the
// body of a function that returns nothing or an error, with the packages that it names imported.
// A block for a router that is not in this module is a part of examples/middleware, letter by
// letter, whose tests run it.
func TestCodeBlocksCompile(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tmp, overlay, blocks := t.TempDir(), map[string]string{}, 0
	add := func(pkg, name, text string) {
		path := filepath.Join(tmp, pkg+" "+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, "internal", pkg, name)] = path
	}
	add("blocks", "surroundings.go", surroundings)
	packages, examples := []string{"./internal/blocks"}, exampleCode(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range goBlock.FindAllStringSubmatch(string(text), -1) {
			blocks++
			if strings.Contains(examples, indent.ReplaceAllString(b[1], "")) {
				continue
			}
			name := fmt.Sprintf("%s_%d.go", strings.TrimSuffix(filepath.Base(page), ".md"), blocks)
			if strings.HasPrefix(b[1], "package ") {
				pkg := fmt.Sprintf("program%d", blocks)
				add(pkg, name, b[1])
				packages = append(packages, "./internal/"+pkg)
				continue
			}
			add("blocks", name, function(b[1], blocks))
		}
	}
	if blocks < 8 {
		t.Fatalf("%d blocks", blocks)
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"build", "-o", os.DevNull, "-gcflags=-e", "-overlay", file}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	faults := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), unused.MatchString)
	if len(faults) > 0 && faults[0] != "" {
		t.Errorf("blocks of the docs do not compile:\n%s", strings.Join(faults, "\n"))
	} else if err != nil && !strings.Contains(string(out), "declared and not used") {
		t.Errorf("%v\n%s", err, out)
	}
}

// exampleCode returns the text of examples/middleware, without indentation.
func exampleCode(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../examples/middleware/*.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(readText(t, file))
	}
	return indent.ReplaceAllString(all.String(), "")
}

// function returns a file of a function whose body is a fragment.
func function(body string, n int) string {
	imports := importBlock.FindString(body)
	body = strings.Replace(body, imports, "", 1)
	var file strings.Builder
	file.WriteString("package blocks\n\n" + imports)
	var names []string
	for _, s := range selector.FindAllStringSubmatch(body, -1) {
		if path := imported[s[1]]; path != "" && !slices.Contains(names, s[1]) && !strings.Contains(imports, path+`"`) {
			names = append(names, s[1])
			fmt.Fprintf(&file, "import %s %q\n", s[1], path)
		}
	}
	result, last := "error ", "\treturn nil\n"
	if bareReturn.MatchString(body) {
		result, last = "", ""
	}
	fmt.Fprintf(&file, "\nfunc _() %s{\n%s\n%s}\n", result, body, last)
	return file.String()
}
