package algorithm

import (
	"github.com/weirlimit/weir"
)

// Throttle is the [TokenBucket] of limits that come with each call instead of
// standing in the rules, as those of the Redis command CL.THROTTLE do. It is not
// in All: no rules file can name it.
//
// All limits of one Scope share a key's state, whatever their numbers: what is
// kept is the instant at which the key will be whole again, and a call with
// other numbers finds it as it is, however far ahead that is.
//
// Guarantee: as [TokenBucket] for calls with the same numbers. Going from one
// rate to another moves the instant by less than a microsecond.
//
// State: 16 bytes at every rate. Clock steps: if the clock goes back by J, a key
// is locked out no longer than J and what Burst takes to refill.
//
// Source: the command CL.THROTTLE of redis-cell; ITU-T I.371, as [TokenBucket].
var Throttle weir.Algorithm = throttle{}

type throttle struct{ gcra }

// Name implements weir.Algorithm.
func (throttle) Name() string { return "throttle" }

// Prepare implements weir.Algorithm.
func (t throttle) Prepare(l *weir.Limit) error {
	if err := t.gcra.Prepare(l); err != nil {
		return err
	}
	// One price and no clamp by the burst: a limit with less of either must not
	// lose what a key owes under another.
	l.Cells, l.Layout, l.Price = 2, "tat+fraction", ""
	l.Const[gcraMost] = maxSpan
	return nil
}
