package main_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimitBySources: a limit in words counts by what its sources say, and by nothing else:
// each other value has a count of its own. Of a request that lacks one it knows nothing,
// which the log says.
func TestLimitBySources(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(up.Close)
	keys := filepath.Join(t.TempDir(), "keys.csv")
	if err := os.WriteFile(keys, fmt.Appendf(nil, "sha256,user,tier\n%x,ann,free\n%x,bob,free\n", sha256.Sum256([]byte("0123456789abcdef")), sha256.Sum256([]byte("123456789abcdef0"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for by, requests := range map[string]string{ // each is a path and a header, and the status
		"header:X-Shop":          "/ X-Shop:a 200, / X-Shop:a 429, /x X-Shop:a 429, / X-Shop:b 200, / X-Shap:a 200, / X-Shap:a 200",
		"cookie:s":               "/ Cookie:s=a 200, / Cookie:s=a 429, / Cookie:s=b 200",
		"query:q":                "/?q=a - 200, /x?q=a - 429, /?q=b - 200",
		"path":                   "/a - 200, /a X-Shop:b 429, /b - 200",
		"remote_address/24":      "/ - 200, /b - 429",
		"api_key":                "/ X-API-Key:0123456789abcdef 200, / X-API-Key:0123456789abcdef 429, / X-API-Key:123456789abcdef0 200",
		"user":                   "/ X-API-Key:0123456789abcdef 200, / X-API-Key:0123456789abcdef 429, / X-API-Key:123456789abcdef0 200",
		"tier":                   "/ X-API-Key:0123456789abcdef 200, / X-API-Key:123456789abcdef0 429",
		"ip and path":            "/a - 200, /a - 429, /b - 200",
		"header:X-Shop and path": "/a X-Shop:a 200, /a X-Shop:a 429, /b X-Shop:a 200, /a X-Shop:b 200, /a - 200, /a - 200",
		"all":                    "/a X-Shop:a 200, /b X-Shop:b 429",
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			n := serve(t, "--limit", "1/year by "+by+" using fixed_window", "--upstream", up.URL, "WEIR_API_KEYS="+keys, "WEIR_API_KEY_FROM=header:X-API-Key", "WEIR_USER_FROM=api_key", "WEIR_TIER_FROM=keys")
			for _, r := range strings.Split(requests, ", ") {
				words := strings.Fields(r)
				req, err := http.NewRequest("GET", n.http+words[0], nil)
				if err != nil {
					t.Fatal(err)
				}
				if name, value, ok := strings.Cut(words[1], ":"); ok {
					req.Header.Set(name, value)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.Status[:3] != words[2] {
					t.Errorf("%s of %s: %s", r, requests, res.Status)
				}
			}
			always := by == "path" || by == "remote_address/24" || by == "ip and path" || by == "all"
			if warned := strings.Contains(n.Output(), "requests without this are not limited"); warned == always {
				t.Errorf("warned: %t\n%s", warned, n.Output())
			}
		})
	}
}
