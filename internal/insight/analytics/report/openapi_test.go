package report

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// TestDocumentHasEveryParameter: the OpenAPI document names the parameters that each path takes,
// and no other.
func TestDocumentHasEveryParameter(t *testing.T) {
	text, err := os.ReadFile("../../../frontend/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct {
					Name, In string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := []string{"domain", "rule", "limit", "algorithm", "mode", "node", "region", "outcome", "key", "tier", "path", "agent", "verdict",
		"by", "sort", "top", "new_allowance", "new_period_ms", "new_burst", "new_algorithm", "from", "to", "step"}
	known := map[string]bool{}
	for _, q := range questions {
		var named []string
		for _, p := range doc.Paths[Prefix+q.Path].Get.Parameters {
			if p.In == "query" && !slices.Contains(all, p.Name) {
				t.Errorf("%s: the test does not know the parameter %s", q.Path, p.Name)
			}
			if p.In == "query" {
				named = append(named, p.Name)
			}
		}
		for _, name := range all {
			// A parameter that a path takes is wrong twice; another is unknown.
			_, err := query.ParseParams(url.Values{name: {"", ""}}.Encode(), q.Takes, time.Unix(1e9, 0), &rows.Bounds{})
			takes := err == nil || !strings.Contains(err.Error(), "is no parameter")
			known[name] = known[name] || takes
			if inPath := strings.Contains(q.Path, "{"+name+"}"); !inPath && takes != slices.Contains(named, name) {
				t.Errorf("%s: parameter %s: taken %t, in openapi.json %t (%v)", q.Path, name, takes, slices.Contains(named, name), err)
			}
		}
	}
	for _, name := range all {
		if !known[name] {
			t.Errorf("no path takes %s", name)
		}
	}
}
