package sketch

import (
	"math"
	"sync"
)

// A shard holds the keys of a [Window] that share one lock. Its methods require
// that it is locked.
type shard struct {
	mu      sync.Mutex
	span    int64        // µs a generation lasts
	ring    []generation // by generation number modulo their count
	newest  int64        // number of the newest generation
	started bool         // false until the first call tells the time
	sample  sample
	_       [64]byte // keeps the next shard's mutex off this one's cache line
}

// A usage is what the live generations say about one key.
type usage struct {
	older   int64 // units in all live generations but the newest, saturating
	current int64 // units in the newest generation, saturating
	last    int64 // newest generation that holds a unit, if total is above 0
	block   int64 // newest generation that must leave for the cost to fit
}

func (u usage) total() int64 { return addSaturated(u.older, u.current) }

// fits reports whether cost more units stay within limit, both not negative.
func (u usage) fits(cost, limit int64) bool {
	return cost <= limit && u.total() <= limit-cost
}

// sumGenerations sums the live generations from the newest to the oldest. room is the
// limit less the cost: the generation at which the sum first exceeds it is the
// one whose end a refused cost has to wait for.
//
// Generations that now has left behind are skipped and not cleared, so that a
// peek changes nothing.
func (s *shard) sumGenerations(h uint64, now, room int64) usage {
	var u usage
	if !s.started {
		return u
	}
	generations := int64(len(s.ring))
	live := generations
	if ahead := floorDiv(now, s.span); ahead > s.newest {
		passed := uint64(ahead) - uint64(s.newest) // exact where int64 would overflow
		live -= int64(min(passed, uint64(generations)))
	}
	blocked := false
	for i := range live {
		g := s.newest - i
		est := s.ring[s.ringSlot(g)].estimate(s.generationProbe(h, g))
		if est == 0 {
			continue
		}
		if u.total() == 0 {
			u.last = g
		}
		if i == 0 {
			u.current = est
		} else {
			u.older = addSaturated(u.older, est)
		}
		if !blocked && u.total() > room {
			blocked, u.block = true, g
		}
	}
	return u
}

// addUnits puts cost units, at least 1, into the newest generation.
func (s *shard) addUnits(h uint64, cost int64, u *usage) {
	slot := s.ringSlot(s.newest)
	u.current = s.ring[slot].addUnits(s.generationProbe(h, s.newest), cost)
	u.last = s.newest
	s.sample.addUnits(h, slot, cost)
}

// describeSpent describes a key after its cost was added.
func (s *shard) describeSpent(u usage, now, limit int64) Decision {
	return Decision{Allowed: true, Remaining: unitsLeft(limit, u.total()), ResetAfter: s.resetAfter(u, now)}
}

// describe tells what a cost that adds nothing meets.
func (s *shard) describe(u usage, now, cost, limit int64) Decision {
	d := Decision{Remaining: unitsLeft(limit, u.total()), ResetAfter: s.resetAfter(u, now)}
	switch {
	case cost == 0 || u.fits(cost, limit):
		d.Allowed = true
	case cost > limit:
		d.RetryAfter = Never
	default:
		d.RetryAfter = s.timeToLeave(u.block, now)
	}
	return d
}

// resetAfter returns the time until the key's last unit leaves.
func (s *shard) resetAfter(u usage, now int64) int64 {
	if u.total() == 0 {
		return 0
	}
	return s.timeToLeave(u.last, now)
}

// timeToLeave returns the time until generation g is no longer summed: until the
// generation that takes its place in the ring begins.
func (s *shard) timeToLeave(g, now int64) int64 {
	next := int64(len(s.ring))
	if g > math.MaxInt64/s.span-next {
		return math.MaxInt64
	}
	at := (g + next) * s.span
	if now < 0 && at > math.MaxInt64+now {
		return math.MaxInt64
	}
	return at - now
}

// unitsLeft is limit less used, or 0 if there is none: a limit may have been lowered
// below what was used.
func unitsLeft(limit, used int64) int64 {
	return max(limit, used) - used
}

// advance makes the generation of now the newest and empties those it passes.
// A clock that went back stays in the newest generation: what is spent then is
// counted longer than it need be, never less long.
func (s *shard) advance(now int64) {
	g := floorDiv(now, s.span)
	if !s.started {
		s.started, s.newest = true, g
		return
	}
	if g <= s.newest {
		return
	}
	passed := min(uint64(g)-uint64(s.newest), uint64(len(s.ring)))
	s.newest = g
	for i := range int64(passed) {
		slot := s.ringSlot(g - i)
		s.ring[slot].reset()
		s.sample.forgetSlot(slot)
	}
	s.sample.freeEmptyKeys(g)
}

// ringSlot returns the place of generation g in the ring.
func (s *shard) ringSlot(g int64) int {
	r := g % int64(len(s.ring))
	if r < 0 {
		r += int64(len(s.ring))
	}
	return int(r)
}

// generationProbe gives a key other positions in every generation, so that a key which
// shares all its counters with heavier ones does so for one generation only.
func (s *shard) generationProbe(h uint64, g int64) probe {
	return newProbe(mixBits(h + uint64(g)*golden))
}

// floorDiv divides rounding down, for a positive divisor.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
