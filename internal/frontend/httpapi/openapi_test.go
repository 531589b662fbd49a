package httpapi_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/openapitest"
)

// exchange sends a request, checks it and the answer against openapi.json, and
// returns the answer.
func exchange(t *testing.T, method, url, path, body string, header http.Header) (*http.Response, string) {
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
	if res.StatusCode == 200 && (method == "POST" || method == "PATCH") {
		openapitest.Request(t, method, path, []byte(body))
	}
	openapitest.Response(t, method, path, res.StatusCode, res.Header, b)
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
	// TestDocumentHasEveryRoute of internal/node checks the paths with tags.
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
