package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/rules"
)

// Names that no event has room for are an error that says so, wherever they stand, and
// names that just fit are not.
func TestFamilyNamesHaveBounds(t *testing.T) {
	for name, file := range map[string]string{
		"value":          "domain: d\ndescriptors:\n  - {key: k, value: %q, limit: 1/hour}\n",
		"key":            "domain: d\ndescriptors:\n  - {key: %q, limit: 1/hour}\n",
		"domain":         "domain: %q\ndescriptors:\n  - {key: k, limit: 1/hour}\n",
		"name":           "domain: d\ndescriptors:\n  - {key: k, name: %q, limit: 1/hour}\n",
		"nested":         "domain: d\ndescriptors:\n  - key: a\n    value: x\n    descriptors:\n      - {key: k, value: %q, limit: 1/hour}\n",
		"a denied value": "domain: d\ndescriptors:\n  - {key: k, value: %q, limit: 0/hour}\n",
		"tier":           "domain: d\ndescriptors:\n  - key: k\n    tiers:\n      by: tier\n      limits:\n        ? %q\n        : 1/hour\n",
		"pool":           "domain: d\npools:\n  ? %[1]q\n  : 9/hour\ndescriptors:\n  - {key: k, limit: {limit: 1/hour, mode: elastic, pool: %[1]q}}\n",
		"a denied key":   "domain: d\ndeny:\n  ? %q\n  : [x]\ndescriptors:\n  - {key: k, limit: 1/hour}\n",
		"a rule's ban":   "domain: d\ndescriptors:\n  - {key: k, value: %q, limit: {limit: 1/hour, ban: {after: 1, for: 1h}}}\n",
		"a list":         "domain: d\ndescriptors:\n  - {key: k, limits: [1/hour, {name: %q, limit: 9/day}]}\n",
		"a named value":  "domain: d\ndescriptors:\n  - {key: k, value: %q, limit: 1/hour, algorithm: fixed_window, name: a name}\n",
		"override":       "domain: d\ndescriptors:\n  - key: k\n    limit: 1/hour\n    overrides:\n      ? %q\n      : 2/hour\n",
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(n int) (int, error) {
				set, err := rules.Parse("api.yaml", fmt.Appendf(nil, file, strings.Repeat("n", n)), rules.Options{})
				if err != nil {
					return 0, err
				}
				longest := 0
				for _, p := range set.Refs() {
					longest = max(longest, len(p.Domain)+len(p.Rule)+len(p.Limit.Name))
				}
				return longest, nil
			}
			if n, err := parse(300); err != nil || n < 300 {
				t.Errorf("300 bytes: %d, %v", n, err)
			}
			for _, n := range []int{1600, 22_000, 60_000} {
				_, err := parse(n)
				if err == nil || !strings.Contains(err.Error(), "names of the limit") || len(err.Error()) > 2000 {
					t.Errorf("%d bytes: %.300v", n, err)
				}
			}
			// Whatever is accepted fits.
			for n := 400; n < 1600; n += 7 {
				if longest, err := parse(n); err == nil && longest > rules.MaxNames {
					t.Fatalf("%d bytes are accepted, and make names of %d", n, longest)
				}
			}
		})
	}
}

// TestFamilyNamesAreForPeople: a limit without a name has one that holds no sign of the grammar
// of paths, and its counters are named by the path as ever.
func TestFamilyNamesAreForPeople(t *testing.T) {
	for body, want := range map[string][2]string{
		"{key: remote_address, limit: 1/s}":                                              {"remote_address", "d/remote_address"},
		"{key: path, value: /login, descriptors: [{key: remote_address, limit: 1/s}]}":   {"/login by remote_address", `d/path="/login"/remote_address`},
		"{key: plan, value: free, descriptors: [{key: user, limit: 1/s}]}":               {"plan free by user", "d/plan=free/user"},
		"{key: user, descriptors: [{key: path, limit: 1/s}]}":                            {"user and path", "d/user/path"},
		"{key: user, limits: [1/m, {limit: 9/h, name: hourly}]}":                         {"user per minute", "d/user#minute"},
		"{key: user, limits: [{limit: 3, ttl: 1s, algorithm: concurrency}, 9/h]}":        {"user concurrency", "d/user#concurrency"},
		"{key: user, tiers: {by: tier, limits: {free: 1/m}}}":                            {"user of tier free", "d/user"},
		"{key: user, tiers: {by: tier, limits: {free: [1/m, {limit: 9/h, name: two}]}}}": {"user per minute of tier free", "d/user#minute"},
		"{key: user, limit: 2/s, overrides: {acme: 1/s}}":                                {"user", "d/user"},
		"{key: path, value: /é, limit: 1/s}":                                             {"/é", `d/path="/é"`},
	} {
		s, err := rules.Parse("a.yaml", []byte("domain: d\ndescriptors:\n  - "+body+"\n"), rules.Options{})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if l := s.Limits()[0]; l.Name != want[0] || l.Scope != want[1] {
			t.Errorf("%s: named %q, counted as %q; not %q", body, l.Name, l.Scope, want)
		}
	}
}
