package transport

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// The calls of one decision share a budget, and none of them loses what an earlier one waited
// for this process, up to a second.
func TestBudgetIsOfTheStore(t *testing.T) {
	now, late := clock.Node(1), 30*time.Millisecond // before it began
	env := &Env{Now: func() clock.Node { return now }, Late: func(before time.Duration) time.Duration { return late - before }}
	q := &Queue{env: env, opt: Options{Budget: 20 * time.Millisecond}}
	b := q.BeginBudget(t.Context())
	for _, x := range []struct{ passed, late, left time.Duration }{
		{0, 0, 20}, {5, 0, 15}, {40, 40, 15}, {10, 5, 10}, {2000, 2000, 0}, {5000, 5000, 0},
	} {
		now += clock.Node(x.passed * 1000)
		late += x.late * time.Millisecond
		if got := q.BudgetLeft(b); x.passed < 2000 && got != x.left*time.Millisecond {
			t.Errorf("after %d ms, of which %d late: %s left, want %d ms", x.passed, x.late, got, x.left)
		} else if x.passed > 2000 && got != 0 {
			t.Errorf("%s left after more than a second", got)
		}
	}
}
