package weir

import (
	"fmt"
	"time"
)

// Decision is the answer to one request. The zero Decision refuses: nothing was
// decided. Whoever ignores an error refuses, too, since it comes with the zero
// Decision. A request that meets no limit gets the decision of [AllowUnlimited].
//
// Invariant: four words. A larger struct does not travel in registers, which
// doubles the cost of a decision (BenchmarkTake in lab/bench/).
type Decision struct {
	// Limit is the limit that decided: the one that refused, or the one
	// nearest to refusing, by the share that is left. Nil when no limit applied,
	// and in the zero Decision.
	Limit *Limit
	// Remaining is the largest cost that Limit would allow right now, after
	// this decision; of several limits, another with a larger share left can
	// allow less. It can be positive on a refusal, when less was left than was
	// asked for. It is MaxCost when no limit applied.
	Remaining int64
	// RetryAfter is zero when the request is allowed, and in the zero Decision.
	// On a refusal it is the least wait after which the same cost passes if nobody
	// else spends, or Never. Resolution: one microsecond, rounded up.
	RetryAfter time.Duration
	// ResetAfter is the least wait after which the key is as if it had never
	// been seen. Resolution: one microsecond, rounded up.
	ResetAfter time.Duration
}

// AllowUnlimited returns the decision on a request that no limit applies to. It
// allows, and the largest cost passes: Remaining is MaxCost. [Rules] and stores
// that let a request pass without a limit answer with it.
func AllowUnlimited() Decision { return Decision{Remaining: MaxCost} }

// Allowed reports whether the request may pass. It is false for the zero Decision.
func (d Decision) Allowed() bool {
	return d.RetryAfter == 0 && (d.Limit != nil || d.Remaining != 0)
}

// Banned reports whether the request is refused because its key is banned, by an
// operator, by the rules or for its refusals: until RetryAfter from now, whatever it
// asks for.
func (d Decision) Banned() bool { return d.Limit != nil && d.Limit.Bans && !d.Allowed() }

// String says in one line what was decided, for logs and tests: "refused by
// 100/minute, 0 remain, retry after 12.5s".
func (d Decision) String() string {
	switch {
	case d.Limit == nil && d.Allowed():
		return "allowed: no limit applies"
	case d == Decision{}:
		return "refused: nothing was decided"
	}
	name := "no limit"
	if d.Limit != nil {
		name = d.Limit.Name
	}
	switch {
	case d.Allowed():
		return fmt.Sprintf("allowed by %s, %d remain", name, d.Remaining)
	case d.Banned() && d.RetryAfter == Never:
		return fmt.Sprintf("refused by %s, banned", name)
	case d.Banned():
		return fmt.Sprintf("refused by %s, banned for %s", name, d.RetryAfter)
	case d.RetryAfter == Never:
		return fmt.Sprintf("refused by %s, %d remain, waiting does not help", name, d.Remaining)
	}
	return fmt.Sprintf("refused by %s, %d remain, retry after %s", name, d.Remaining, d.RetryAfter)
}

// Delay returns how long an allowed request of the given cost must wait before
// it proceeds. It is zero unless the limit's algorithm shapes traffic
// (leaky_queue) instead of refusing it.
func (d Decision) Delay(cost int64) time.Duration {
	if d.Limit == nil || d.Limit.traits&Shapes == 0 || !d.Allowed() {
		return 0
	}
	return d.Limit.Algorithm.(Shaper).Delay(d, cost)
}

// Guarantee returns what this decision promises. That of a request under no limit, or
// under a shadow alone, promises nothing: it has no number, and is not exact.
func (d Decision) Guarantee() Guarantee {
	if d.Limit == nil {
		return Guarantee{AtMost: Unbounded}
	}
	return d.Limit.Guarantee()
}

// Degraded is what Guarantee says of it: the store could not give its usual guarantee.
func (d Decision) Degraded() bool {
	if d.Limit == nil || !d.Limit.source.degraded() {
		return false
	}
	return d.Limit.traits&Sketches == 0
}
