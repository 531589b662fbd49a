// Package algorithm holds the ways to count: each a pure step over the few
// integers that a store keeps for a key.
//
// Which to choose:
//
//   - [TokenBucket]: the usual API limit; a burst, then an even rate.
//   - [LeakyBucket]: the same decisions, told as a bucket that leaks.
//   - [LeakyQueue]: delays instead of refusing; an even outflow.
//   - [FixedWindow]: so many in each window, by the clock or the calendar.
//   - [SlidingWindow]: never more than so many in any period, in little memory.
//     The one to choose when in doubt.
//   - [SlidingCounter]: about so many in a period, in one word.
//   - [SlidingSubwindows]: as SlidingWindow, in more memory, with a precision of
//     one's own.
//   - [SlidingLog]: the same, exact to the microsecond, for small counts.
//   - [Concurrency]: so many at once.
//   - [Lockout]: so many failures, then nothing for a period.
//   - [Approximate]: millions of keys in fixed memory, refusing early at worst.
//
// All values are stateless and safe for concurrent use. Only the standard
// library is imported.
package algorithm

import (
	"fmt"

	"github.com/weirlimit/weir"
)

// All lists every algorithm. What is in it is in the rules, the metrics, every
// store and every conformance test.
var All = []weir.Algorithm{
	TokenBucket,
	LeakyBucket,
	LeakyQueue,
	FixedWindow,
	SlidingWindow,
	SlidingCounter,
	SlidingSubwindows,
	SlidingLog,
	Concurrency,
	Lockout,
	Approximate,
}

// ByName returns the algorithm of the given name, or nil.
func ByName(name string) weir.Algorithm {
	for _, a := range All {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

func errTooLong(l *weir.Limit) error {
	return fmt.Errorf("waits of up to %s at %d per %s are too long: lower max_delay, burst or free, or raise the rate",
		l.MaxDelay, l.Count, l.Period)
}

// LeavesTrace reports whether what l was charged cannot be given back without a trace. Only
// what algorithms lend can be, and of those not what a sliding window was charged: when its
// last unit came is not kept twice.
func LeavesTrace(l *weir.Limit) bool {
	return l.Traits()&weir.Lends == 0 || l.Algorithm == SlidingWindow
}
