package answer

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// Wait returns how long a client whose request was refused with d, made of ops, is
// told to stay away: d.RetryAfter, but for limits on what is under way at once.
// When one of those who hold a place will be done is not known, and RetryAfter is
// when they lose it if they died: such a limit by itself says one second.
func Wait(ops []weir.Op, d weir.Decision) time.Duration {
	if !underWay(d) {
		return d.RetryAfter
	}
	var buf [4]policy
	wait := time.Second
	for _, p := range policies(buf[:0], ops, true) {
		if p.refused && p.until > 0 {
			wait = max(wait, micros.Duration(p.until))
		}
	}
	return wait
}

// underWay reports whether d refuses because of what is under way at once.
func underWay(d weir.Decision) bool {
	return d.RetryAfter > 0 && d.Limit != nil && d.Limit.Traits()&weir.Leases != 0
}

// Seconds returns a wait as delay-seconds: rounded up, at least 1.
func Seconds(wait time.Duration) int64 { return max(ceilSeconds(wait), 1) }

// retrySeconds returns the Retry-After of the refusal d, see Wait: no earlier than
// any limit says, and 0 if waiting does not help.
func retrySeconds(ps []policy, d weir.Decision) int64 {
	if d.RetryAfter == weir.Never {
		return 0
	}
	s := int64(1)
	if !underWay(d) {
		s = Seconds(d.RetryAfter)
	}
	for i := range ps {
		if ps[i].refused {
			s = max(s, divideUp(max(ps[i].until, 0), 1_000_000))
		}
	}
	return s
}
