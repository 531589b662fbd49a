package gateway

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test . -run ^TestReference$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/forwarding.md")

// TestReference: docs/reference/generated/forwarding.md lists the fields that are dropped.
// TestFamilyClaims sends each of them.
func TestReference(t *testing.T) {
	const path = "../../../docs/reference/generated/forwarding.md"
	list := func(names []string, more ...string) string {
		for i, n := range names {
			names[i] = http.CanonicalHeaderKey(n)
		}
		return "`" + strings.Join(append(names, more...), "`, `") + "`"
	}
	var prefixes []string
	for _, p := range verifiedPrefixes {
		prefixes = append(prefixes, http.CanonicalHeaderKey(p)+"*")
	}
	page := "# Header fields that the gateway does not forward\n\nMade by `make docs` of the lists in `internal/frontend/gateway`. [The gateway](../gateway.md#who-it-is-forwarded-for) says why. " +
		"A field is dropped in any spelling: `X_Real_IP` is `X-Real-IP`.\n\n| dropped | |\n|---|---|\n" +
		"| from everybody, except the one that `proxies.header`, `identity.user`, `identity.tier` or `method_override` names | " +
		list(slices.Sorted(maps.Keys(claims)), "X-Forwarded-*") + " |\n" +
		"| from all but trusted proxies | " + list(slices.Sorted(maps.Keys(verified)), prefixes...) + " |\n"
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != page {
		t.Errorf("%s is stale (%v): make docs", path, err)
	}
}
