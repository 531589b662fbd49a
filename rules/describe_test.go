package rules_test

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/limits"
)

// describeSet returns a set as a text of one line for each limit, in the order of the files.
func describeSet(s *limits.Set) string {
	var b strings.Builder
	domain := ""
	for _, r := range s.Rules() {
		if r.Domain != domain {
			domain = r.Domain
			fmt.Fprintf(&b, "%s\n", domain)
		}
		fmt.Fprintf(&b, "  %s", r.Path)
		for _, flag := range []struct {
			on   bool
			name string
		}{
			{r.Shadow, "shadow_mode"}, {r.Quota, "quota_mode"}, {r.DetailedMetric, "detailed_metric"},
			{r.ValueToMetric, "value_to_metric"}, {r.ShareThreshold, "share_threshold"},
			{r.Metadata, "metadata"}, {r.Allow != nil, "allow"}, {r.Deny != nil, "deny"},
		} {
			if flag.on {
				b.WriteString(" " + flag.name)
			}
		}
		b.WriteByte('\n')
		list := func(label string, ls []*limits.Limit) {
			for _, l := range ls {
				fmt.Fprintf(&b, "    %s%s\n", label, l)
			}
		}
		list("", r.Limits)
		for _, c := range r.Tiers {
			list(r.TierBy+" "+c.Value+": ", c.Limits)
		}
		for _, c := range r.Overrides {
			list("for "+c.Value+": ", c.Limits)
		}
	}
	return b.String()
}
