package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// spec is openapi.json, by which every exchange of these tests is judged.
var spec = sync.OnceValue(func() *jsonschema.Compiler {
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return c
})

// conforms checks value against the schema at pointer.
func conforms(t *testing.T, pointer string, value []byte) {
	t.Helper()
	s, err := schema(pointer)
	if err != nil {
		t.Errorf("openapi.json does not know %s: %v", pointer, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Errorf("%s: not JSON: %v: %s", pointer, err, value)
		return
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s is not as openapi.json says: %v", value, err)
	}
}

var schemaMu sync.Mutex

func schema(pointer string) (*jsonschema.Schema, error) {
	schemaMu.Lock()
	defer schemaMu.Unlock()
	return spec().Compile("openapi.json#" + pointer)
}

// exchange sends a request, checks it and the answer against openapi.json, and
// returns the answer.
func exchange(t *testing.T, method, url, path, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	return exchangeAt(t, method, url, path, strings.ReplaceAll(path, "/", "~1"), body, header)
}

// exchangeAt is exchange of a path that stands in openapi.json at a place.
func exchangeAt(t *testing.T, method, url, path, place, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	at := "/paths/" + place + "/" + strings.ToLower(method)
	kind := strings.ReplaceAll(res.Header.Get("Content-Type"), "/", "~1")
	switch res.StatusCode {
	case 404, 405: // of paths and methods that are not in the document
		at, kind = "/components/schemas/Problem", ""
	default:
		if res.StatusCode == 200 && (method == "POST" || method == "PATCH") {
			conforms(t, at+"/requestBody/content/application~1json/schema", []byte(body))
		}
		at += "/responses/" + strconv.Itoa(res.StatusCode) + "/content/" + kind + "/schema"
	}
	conforms(t, at, b)
	return res, string(b)
}

// post sends body and returns status and body of the answer.
func post(t *testing.T, url, path, body string) (int, string) {
	t.Helper()
	res, got := exchange(t, "POST", url, path, body, nil)
	kind := "application/problem+json"
	if res.StatusCode == 200 {
		kind = "application/json"
	}
	if res.Header.Get("Content-Type") != kind {
		t.Errorf("%d is told as %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	return res.StatusCode, got
}

func TestDocumentTellsOfEveryPath(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{})
	res, body := exchange(t, "GET", srv.URL, "/openapi.json", "", nil)
	if res.StatusCode != 200 {
		t.Fatalf("got %d", res.StatusCode)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ Tags []string }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("openapi is %q, want 3.1", doc.OpenAPI)
	}
	// TestDocumentHasEveryRoute of internal/server checks the paths with tags.
	maps.DeleteFunc(doc.Paths, func(_ string, methods map[string]struct{ Tags []string }) bool {
		for _, m := range methods {
			return m.Tags != nil
		}
		return false
	})
	got := slices.Sorted(maps.Keys(doc.Paths))
	if want := srv.api.Paths(); !slices.Equal(got, want) {
		t.Errorf("the document has %q, the API %q", got, want)
	}
	for path, methods := range doc.Paths {
		req, err := http.NewRequest("PROPFIND", srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		want := strings.ToUpper(strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		if got := res.Header.Get("Allow"); res.StatusCode != 405 || got != want {
			t.Errorf("%s: status %d, Allow %q; the document has %q", path, res.StatusCode, got, want)
		}
	}
}
