package envoy

import (
	"slices"
	"testing"
)

// Limits of quota mode refuse a request together only, through Envoy too, and what one of
// them refuses is refused beside a limit that is none.
func TestQuotaModeThroughEnvoy(t *testing.T) {
	processes(t)
	root := folderOf(writeFile(t, "config/d.yaml", `domain: d
descriptors:
  - {key: small, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: large, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 4}}
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
`))
	small, large, user := actions(byHeader("x-small", "small")), actions(byHeader("x-large", "large")), actions(byHeader("x-user", "user"))
	app := serveApplication(t)
	service := startRateLimit(t, []string{command, "ratelimit"}, root)
	e := startEnvoy(t, setup{filters: list{rateLimitFilter("d", object{"failure_mode_deny": true, "rate_limits": list{small, large, user}})}}.bootstrap(t),
		map[int]string{portApplication: app.addr, portWeirGRPC: service.addr})
	want(t, "two quotas", e.codes(t, 6, "/", "X-Small", "a", "X-Large", "a"), slices.Concat(times(4, 200), times(2, 429)))
	want(t, "one quota", e.codes(t, 3, "/", "X-Small", "b"), slices.Concat(times(2, 200), times(1, 429)))
	want(t, "a quota beside a limit", e.codes(t, 4, "/", "X-Large", "c", "X-User", "c"), slices.Concat(times(3, 200), times(1, 429)))
	want(t, "a quota beside a limit, the other way", e.codes(t, 3, "/", "X-Small", "d", "X-User", "d"), slices.Concat(times(2, 200), times(1, 429)))
	if n := app.count(); n != 11 {
		t.Errorf("the application has %d requests of 11", n)
	}
}
