// Package openapitest holds what servers receive and send against the OpenAPI document.
package openapitest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is openapi.json, compiled as far as it was asked for.
type document struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	paths    map[string]any
}

// File returns the path of the document.
func File() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "../../frontend/httpapi/openapi.json")
}

var open = sync.OnceValues(func() (*document, error) {
	text, err := os.ReadFile(File())
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	paths, _ := doc.(map[string]any)["paths"].(map[string]any)
	return &document{compiler: c, paths: paths}, nil
})

// validate checks JSON by the schema at a pointer.
func (d *document) validate(pointer string, value []byte) error {
	d.mu.Lock()
	s, err := d.compiler.Compile("openapi.json#" + pointer)
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("openapi.json has no %s: %w", pointer, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return fmt.Errorf("%s: not JSON: %w", pointer, err)
	}
	return s.Validate(v)
}

// template returns the path of the document that a path of a request fits, the most literal one.
// Empty if there is none.
func (d *document) template(path string) (best string) {
	path, _, _ = strings.Cut(path, "?")
	least := -1
	for t := range d.paths {
		have, want := strings.Split(path, "/"), strings.Split(t, "/")
		if len(have) != len(want) {
			continue
		}
		words, fits := 0, true
		for i, w := range want {
			switch {
			case strings.HasPrefix(w, "{"):
				words++
			case w != have[i]:
				fits = false
			}
		}
		if fits && (least < 0 || words < least) {
			best, least = t, words
		}
	}
	return best
}

// Request checks the body of a request to a path, which may be one of the document or of a request.
func Request(t testing.TB, method, path string, body []byte) {
	t.Helper()
	check(t, body, func(d *document) error {
		return d.validate(d.pointer(method, path)+"/requestBody/content/application~1json/schema", body)
	})
}

// Response checks the response to a request: the document has its status and type, and the schema
// there fits its body. 404 and 405 that are not in the document, such as of a path on another port,
// must be a problem.
func Response(t testing.TB, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	check(t, body, func(d *document) error { return d.response(method, path, status, header, body) })
}

func check(t testing.TB, value []byte, by func(*document) error) {
	t.Helper()
	d, err := open()
	if err == nil {
		err = by(d)
	}
	if err != nil {
		t.Errorf("%.2000s is not as openapi.json says: %v", value, err)
	}
}

// pointer returns the JSON pointer to an operation.
func (d *document) pointer(method, path string) string {
	return "/paths/" + strings.ReplaceAll(d.template(path), "/", "~1") + "/" + strings.ToLower(method)
}

func (d *document) response(method, path string, status int, header http.Header, body []byte) error {
	operations, _ := d.paths[d.template(path)].(map[string]any)
	operation, _ := operations[strings.ToLower(method)].(map[string]any)
	responses, _ := operation["responses"].(map[string]any)
	of, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) {
		return d.validate("/components/schemas/Problem", body)
	}
	kinds, _ := of["content"].(map[string]any)
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if kinds[kind] == nil {
		return fmt.Errorf("%s %s: the document has no %s of status %d", method, path, kind, status)
	}
	if !strings.HasSuffix(kind, "json") {
		return nil
	}
	return d.validate(d.pointer(method, path)+"/responses/"+strconv.Itoa(status)+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", body)
}
