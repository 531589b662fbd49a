package algorithm

import "github.com/weirlimit/weir"

// carryByForce is the Carry between rows that are read in two ways, as the algorithm or a period
// has changed: the units of the old row are forced on the new one, each at the latest
// instant at which it may have been spent. So an interval under l counts all of them that it
// can have seen, and none whose time is over.
//
// The old row says more than the new one can keep, as when it was spent within a longer
// period: it is not whole.
func carryByForce(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	was.Algorithm.(weir.Carrier).Spent(old, was, now, func(at, units int64) {
		if l.Layout == bucketLayout {
			// A bucket is owed a full one at most: it counts no period that would end.
			units = min(units, l.Algorithm.Step(cells, l, weir.Ask{Now: at}).Remaining)
		}
		l.Algorithm.Step(cells, l, weir.Ask{Now: at, Cost: units, Verb: weir.Force})
	})
	return false
}

// sameForm reports whether the rows of two versions differ in their price alone.
func sameForm(l, was *weir.Limit) bool {
	return l.Layout == was.Layout && l.Algorithm.Name() == was.Algorithm.Name()
}
