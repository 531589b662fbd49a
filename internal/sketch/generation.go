package sketch

import "math"

// A generation counts the units of one sub-window: a key's first unit in a
// Bloom filter, the others in a count-min sketch. A key seen once uses no
// counter, and a counter that other keys share does not speak for a key that the
// filter has never seen.
//
// Invariant: estimate is at least the units added for the key. Units are none
// while the filter says no, for it never forgets. The first n units set the
// filter; if it said no before, the key's own counters must hold n-1 and nothing
// else is known of the key, so they are raised to n-1, which leaves what other
// keys put there out of the sum. If the filter wrongly said yes, all n go to the
// counters: one too many, never one too few. Later units all go to the counters.
type generation struct {
	seen   bloom
	counts CountMin
	units  int64 // added, saturating
	shared int64 // the part of units that went to counts, saturating
}

func (g *generation) reset() {
	g.seen.reset()
	g.counts.Reset()
	g.units, g.shared = 0, 0
}

func (g *generation) bytes() int64 { return g.seen.bytes() + g.counts.Bytes() }

// estimate returns the key's units, math.MaxInt64 where the counters are full.
func (g *generation) estimate(p probe) int64 {
	if !g.seen.contains(p) {
		return 0
	}
	return oneMore(g.counts.estimate(p))
}

// addUnits adds n units, at least 1, and returns the estimate afterwards.
func (g *generation) addUnits(p probe, n int64) int64 {
	g.units = addSaturated(g.units, n)
	if g.seen.insertKey(p) {
		g.shared = addSaturated(g.shared, n)
		return oneMore(g.counts.addByProbe(p, uint64(n)))
	}
	g.shared = addSaturated(g.shared, n-1)
	return oneMore(g.counts.raiseCounters(p, uint64(n-1)))
}

// oneMore adds the unit of the Bloom filter to an estimate of the counters.
func oneMore(est uint64) int64 {
	if est == Saturated {
		return math.MaxInt64
	}
	return int64(est) + 1
}

// addSaturated adds two numbers that are not negative, stopping at the largest.
func addSaturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
