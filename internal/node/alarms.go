package node

import (
	"fmt"
	"strings"
)

// listAlarms says what operators must see first, wherever they look: the state of the node has
// it, and with that `weir top` and every page of the dashboard.
func listAlarms(r *ruleSet, a *analyticsService) (all []string) {
	if st := r.live.Status(); st.Err != nil {
		first, _, more := strings.Cut(st.Err.Error(), "\n")
		if more {
			first += " (and more)"
		}
		all = append(all, fmt.Sprintf("rules of %s refused; those of %s apply: %s", st.FailedAt.UTC().Format(clock), st.LoadedAt.UTC().Format(clock), first))
	}
	if a != nil {
		if text := a.findAlarm(); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// clock is how alarms write a time.
const clock = "15:04:05 UTC"
