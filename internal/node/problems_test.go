package node_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestEveryErrorIsAProblem: whatever path or port answers, an error has one form, and a code.
func TestEveryErrorIsAProblem(t *testing.T) {
	off, kept := local("3/hour by client_id"), local("3/hour by client_id")
	off.Events.URL, off.Analytics.URL = "off", "off"
	nodes := map[string]*running{"off": run(t, off), "kept": run(t, kept)}
	servertest.Await(t, "the database of analytics", func() bool {
		code, _ := get(t, nodes["kept"].URLs["admin"]+"/v1/analytics/overview")
		return code == 200
	})
	for _, tt := range []struct {
		node, listener, method, path, header string
		status                               int
		code                                 string
	}{
		{"off", "admin", "GET", "/v1/analytics/overview", "", 404, "DISABLED"},
		{"off", "admin", "GET", "/v1/live", "", 404, "DISABLED"},
		{"kept", "admin", "GET", "/v1/live?rul=a", "", 400, "INVALID_ARGUMENT"},
		{"kept", "admin", "GET", "/v1/analytics/overview?last=x", "", 400, "INVALID_ARGUMENT"},
		{"kept", "admin", "GET", "/v1/analytics/nothing", "", 404, "NOT_FOUND"},
		{"kept", "admin", "GET", "/v1/analytics/overview", "cross-site", 403, "PERMISSION_DENIED"},
		{"kept", "admin", "GET", "/v1/live", "cross-site", 403, "PERMISSION_DENIED"},
		{"kept", "admin", "POST", "/v1/explain", "cross-site", 403, "PERMISSION_DENIED"},
		{"kept", "admin", "GET", "/v1/nothing", "", 404, "NOT_FOUND"},
		{"kept", "admin", "POST", "/v1/rules", "", 405, "UNIMPLEMENTED"},
		{"kept", "admin", "GET", "/nothing", "", 404, "NOT_FOUND"},
		{"kept", "admin", "POST", "/version", "", 405, "UNIMPLEMENTED"},
		{"kept", "admin", "GET", "/ui/assets/nothing.js", "", 404, "NOT_FOUND"},
		{"kept", "http", "GET", "/nothing", "", 404, "NOT_FOUND"},
		{"kept", "http", "GET", "/v1/check", "", 405, "UNIMPLEMENTED"},
		{"kept", "http", "POST", "/v1/check", "", 400, "INVALID_ARGUMENT"},
	} {
		r := httptest.NewRequest(tt.method, nodes[tt.node].URLs[tt.listener]+tt.path, nil)
		r.RequestURI = ""
		r.Header.Set("Sec-Fetch-Site", tt.header)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var p answer.Problem
		err = json.NewDecoder(res.Body).Decode(&p)
		res.Body.Close()
		if kind := res.Header.Get("Content-Type"); err != nil || res.StatusCode != tt.status || p.Status != tt.status || p.Code != tt.code || p.Detail == "" || !strings.HasPrefix(kind, "application/problem+json") {
			t.Errorf("%s %s %s: %s, %s: %+v, %v; want %d %s", tt.listener, tt.method, tt.path, res.Status, kind, p, err, tt.status, tt.code)
		}
		if tt.status == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no field Allow", tt.method, tt.path)
		}
	}
}
