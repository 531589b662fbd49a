package algorithm

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// A counter is what fixed_window and lockout keep for a key: the units counted,
// and the instant at which they cease to count, in microseconds. Its row is
// [end<<FractionBits, count].
//
// Invariant: count is positive exactly while end lies in the future.
type counter struct{ end, count int64 }

// loadCounter reads a row as of now.
func loadCounter(cells []int64, now int64) counter {
	c := counter{end: cells[0] >> weir.FractionBits}
	if now < c.end {
		c.count = cells[1]
	}
	return c
}

func (c *counter) saveCells(cells []int64) {
	cells[0], cells[1] = c.end<<weir.FractionBits, c.count
}

// allows reports whether the count has room for the ask.
func (c *counter) allows(l *weir.Limit, a weir.Ask) bool {
	return a.Cost <= l.Count-c.count || a.Cost == 0 || a.Verb == weir.Refund
}

// spend counts cost units until c.end.
func (c *counter) spend(cells []int64, cost int64) {
	c.count = addUnits(c.count, cost, weir.MaxCost)
	c.saveCells(cells)
}

// refund takes cost units off the count.
func (c *counter) refund(cells []int64, cost int64) {
	c.count = max(c.count-cost, 0)
	if c.count == 0 {
		c.end = 0
	}
	c.saveCells(cells)
}

// describe tells what is left, and that a refused cost has to wait until all is
// forgotten.
func (c *counter) describe(l *weir.Limit, a weir.Ask, allowed bool) weir.Decision {
	d := weir.Decision{Limit: l, Remaining: max(l.Count-c.count, 0)}
	if c.count > 0 {
		d.ResetAfter = micros.Duration(c.end - a.Now)
	}
	switch {
	case allowed:
	case a.Cost > l.Count:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = d.ResetAfter
	}
	return d
}

// describeCounter describes the end and the count that a twin tells.
func describeCounter(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	var cells [2]int64
	c := counter{end: state[0], count: state[1]}
	c.saveCells(cells[:])
	return describeCells(cells[:], l, a, allowed)
}

// addUnits returns a + b, at most most. Neither a nor b may exceed 2^53.
func addUnits(a, b, most int64) int64 { return min(a+b, most) }
