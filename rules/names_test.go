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
				for _, p := range set.LimitRefs() {
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
