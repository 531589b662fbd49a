package cases

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// outcome is what came of a step.
type outcome struct {
	allowed, refused, soft int64
	// last is what the last request was told.
	last  weir.Decision
	delay time.Duration
	// problem is why the gateway refused the last request without asking a limit.
	problem string
}

func (o *outcome) addDecision(r *weir.Request, d weir.Decision) {
	if d.Allowed() {
		o.allowed++
		if r.Soft() {
			o.soft++
		}
	} else {
		o.refused++
	}
	o.last, o.delay, o.problem = d, r.Delay(), ""
}

// addUnasked adds a request about which no limit decided: refused for a problem, if there
// is one.
func (o *outcome) addUnasked(problem string) {
	if problem == "" {
		o.allowed++
	} else {
		o.refused++
	}
	o.last, o.delay, o.problem = weir.Decision{}, 0, problem
}

// compareOutcome returns what is otherwise than expected.
func (e *Expect) compareOutcome(got *outcome) (wrong []string) {
	describe := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch n := got.allowed + got.refused; {
	case e.all == allowed && got.refused > 0:
		describe("%d of %d refused%s, want all allowed", got.refused, n, got.refusedBy())
	case e.all == refused && got.allowed > 0:
		describe("%d of %d allowed, want all refused", got.allowed, n)
	}
	number := func(what string, want *int64, got int64) {
		if want != nil && *want != got {
			describe("%d %s, want %d", got, what, *want)
		}
	}
	number("allowed", e.Allowed, got.allowed)
	number("refused"+got.refusedBy(), e.Refused, got.refused)
	number("soft", e.Soft, got.soft)
	name := ""
	if got.last.Limit != nil {
		name = got.last.Limit.Name
	}
	if e.Limit != nil && *e.Limit != name {
		describe("decided by limit %q, want %q", name, *e.Limit)
	}
	number("remaining", e.Remaining, got.last.Remaining)
	span := func(what string, want *period, got time.Duration) {
		if want != nil && time.Duration(*want) != got {
			describe("%s %s, want %s", what, inWords(got), inWords(time.Duration(*want)))
		}
	}
	span("retry after", e.RetryAfter, got.last.RetryAfter)
	span("delay", e.Delay, got.delay)
	return wrong
}

// refusedBy names what refused the last request.
func (o *outcome) refusedBy() string {
	if o.problem != "" {
		return fmt.Sprintf(" by the gateway (%s)", o.problem)
	}
	if o.last.Limit == nil || o.last.Allowed() {
		return ""
	}
	return fmt.Sprintf(" by %q", o.last.Limit.Name)
}

func inWords(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return d.String()
}
