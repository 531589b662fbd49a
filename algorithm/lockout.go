package algorithm

import (
	_ "embed"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// Lockout counts failures and refuses after Count of them, until one Period
// after the last that was counted. Failures less than a Period apart make one
// run; a Period without any ends it.
//
// Guarantee: at most Count failures in any interval of one Period, whatever the
// rhythm, as such an interval lies within one run. Slow failures make a run as
// well.
//
// State: 16 bytes, the end of the run and its count.
//
// Choose it for what an honest client fails at a few times and then gets right,
// such as a password; not for a rate.
//
// How to use it: as Mode.Ban of another limit, whose refusals are then the
// failures; or around a login: Peek 1 before the password is checked, Force 1
// when it was wrong, Refund of weir.MaxCost when it was right, which ends the
// run. A Refund with a receipt gives back within one Period of its spend.
//
// Clock steps: a clock that goes back prolongs the run by as much. Rule
// changes: an open run keeps its count, and its end until the next failure.
//
// Source: the account lockout of pam_faillock and RFC 4226, section 7.3
// (throttling at the server).
var Lockout weir.Algorithm = lockout{}

type lockout struct{}

// Name implements weir.Algorithm.
func (lockout) Name() string { return "lockout" }

// Traits implements weir.Algorithm.
func (lockout) Traits() weir.Traits { return 0 }

// Prepare implements weir.Algorithm.
func (lockout) Prepare(l *weir.Limit) error {
	l.Const[windowPeriod] = micros.Of(l.Period)
	l.Cells, l.Layout, l.Envelope = 2, "end,count", l.Count
	return nil
}

// Step implements weir.Algorithm.
func (lockout) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	c := loadCounter(cells, a.Now)
	allowed := c.admitLockout(cells, l, a)
	return c.describe(l, a, allowed)
}

// admitLockout decides and charges.
func (c *counter) admitLockout(cells []int64, l *weir.Limit, a weir.Ask) bool {
	allowed := c.allows(l, a)
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		if c.count > 0 && (a.ID == 0 || a.ID > a.Now) {
			c.refund(cells, a.Cost)
		}
	case allowed && a.Verb == weir.Spend, a.Verb == weir.Force:
		c.end = max(c.end, a.Now+l.Const[windowPeriod])
		c.spend(cells, a.Cost)
	}
	return allowed
}

//go:embed lockout.lua
var lockoutLua string

// Script implements Scripted.
func (lockout) Script() Script { return Script{Name: "lockout", Text: lockoutLua, Spans: 1, States: 2} }

// Consts implements Scripted.
func (lockout) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	return append(dst, l.Count, l.Const[windowPeriod]), forever
}

// Span implements Scripted.
func (lockout) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (lockout) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	return describeCounter(l, a, allowed, state)
}
