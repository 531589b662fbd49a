package node_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/testing/openapitest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestAnalyticsFitTheDocument: what a server itself sends on the paths of analytics is as the
// OpenAPI document says: without a token, with wrong ones, to another site, and where nothing is
// kept. analyticstest holds the reports against it.
func TestAnalyticsFitTheDocument(t *testing.T) {
	const token = "0123456789abcdef"
	guarded, off := local("3/hour by client_id"), local("3/hour by client_id")
	guarded.Analytics.URL, guarded.Admin.Token = "memory:", token
	off.Analytics.URL = "off"
	servers := map[string]*running{"guarded": run(t, guarded), "off": run(t, off)}
	servertest.Await(t, "the database to be open", func() bool { return servers["guarded"].question(t, "system", token, new(any)) == http.StatusOK })
	ask := func(server, pattern string, header http.Header, want int) {
		t.Helper()
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{domain}", "api", "{rule}", "client_id", "{key}", "k").Replace(path)
		req, err := http.NewRequestWithContext(t.Context(), method, servers[server].URLs["admin"]+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("%s %s %v: %s, want %d", server, pattern, header, res.Status, want)
		}
		openapitest.Response(t, method, path, res.StatusCode, res.Header, body)
	}
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	for _, pattern := range analytics.Paths() {
		want := http.StatusOK
		if pattern == "GET /v1/analytics/client" {
			want = http.StatusBadRequest // no key
		}
		ask("guarded", pattern, bearer(token), want)
		ask("guarded", pattern, http.Header{}, http.StatusUnauthorized)
		ask("off", pattern, http.Header{}, http.StatusNotFound)
		ask("off", pattern, http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden)
	}
	for range 20 { // ten guesses a minute
		wrong, err := http.NewRequestWithContext(t.Context(), "GET", servers["guarded"].URLs["admin"]+"/v1/analytics/system", nil)
		if err != nil {
			t.Fatal(err)
		}
		wrong.Header = bearer("fedcba9876543210")
		res, err := client.Do(wrong)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	for _, pattern := range analytics.Paths() {
		ask("guarded", pattern, bearer("fedcba9876543210"), http.StatusTooManyRequests)
	}
}
