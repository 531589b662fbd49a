package rows

import (
	"cmp"
	"strings"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Limit names a limit and says what it allows.
type Limit = event.LimitRef

// CompareLimits orders limits by all that they are.
func CompareLimits(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit),
		cmp.Compare(a.Algorithm, b.Algorithm), cmp.Compare(a.Allowance, b.Allowance),
		cmp.Compare(a.PeriodMS, b.PeriodMS), cmp.Compare(a.Burst, b.Burst))
}

// Span is from when to when a limit was met, in seconds since the Unix epoch.
type Span struct{ First, Last int64 }

// NodeOfSource returns the node of a source: all but the number that it drew.
func NodeOfSource(source string) string {
	if i := strings.LastIndexByte(source, '/'); i > 0 {
		source = source[:i]
	}
	return CleanText(source)
}

// IsLimiting reports whether an outcome limits a client.
func IsLimiting(outcome string) bool {
	return outcome == "refused" || outcome == "delayed" || outcome == "shadow_refused"
}
