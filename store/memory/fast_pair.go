package memory

import (
	"hash/maphash"

	"github.com/weirlimit/weir"
)

// takePair decides two plain spends whose rows are in place, as those of most
// requests with two limits are, in fewer steps than takeAll does
// (BenchmarkDecideTwoRules). It reports false, and has changed nothing, where they
// are something else. See docs/decisions/0014-fast-paths.md.
func (s *Store) takePair(ops *[2]weir.Op) bool {
	a, b := &ops[0], &ops[1]
	if !isDirect(a) || !isDirect(b) || s.closed.Load() {
		return false
	}
	hash := maphash.String(s.tables.seed, a.Key)
	p := pair{tagA: tagOfHash(hash, a.Limit)}
	if b.Key != a.Key {
		hash = maphash.String(s.tables.seed, b.Key)
	}
	p.tagB = tagOfHash(hash, b.Limit)
	if p.tagA == p.tagB {
		return false // the second sees what the first has spent
	}
	p.inA, p.inB = s.tables.bySize[a.Limit.Cells].segment(p.tagA), s.tables.bySize[b.Limit.Cells].segment(p.tagB)
	// Segments are locked in the order of their numbers.
	first, second := p.inA, p.inB
	if second.num < first.num {
		first, second = second, first
	}
	first.mu.Lock()
	if second != first {
		second.mu.Lock()
	}
	done := p.spendBoth(s.clock, a, b)
	if second != first {
		second.mu.Unlock()
	}
	first.mu.Unlock()
	return done
}

// isDirect reports whether o is a spend that must allow, of a key that keeps its state
// in its row.
func isDirect(o *weir.Op) bool {
	return o.Role == weir.Enforce && o.Verb == weir.Spend && o.Headroom == 0 && !o.Penalize && uint64(o.Cost) <= weir.MaxCost &&
		uint(o.Limit.Cells-1) < maxDirect && o.Limit.Traits()&(weir.Grows|weir.Leases|weir.Sketches) == 0
}

// pair is where the rows of two ops are.
type pair struct {
	tagA, tagB uint64
	inA, inB   *segment
}

// spendBoth charges both or none, if both rows are there. Requires: both locks.
func (p *pair) spendBoth(c *clock, a, b *weir.Op) bool {
	if !p.inA.coversTag(p.tagA) || !p.inB.coversTag(p.tagB) {
		return false
	}
	atA, found := p.inA.findRow(p.tagA)
	if !found {
		return false
	}
	atB, found := p.inB.findRow(p.tagB)
	if !found {
		return false
	}
	rowA, rowB := p.inA.cellsAt(atA), p.inB.cellsAt(atB)
	now := c.now(max(p.inA.latest, p.inB.latest))
	p.inA.latest, p.inB.latest = now, now
	askA, askB := weir.Ask{Now: now, Cost: a.Cost, ID: a.ID}, weir.Ask{Now: now, Cost: b.Cost, ID: b.ID}
	var before [maxDirect]int64
	copy(before[:], rowA)
	decisionA := a.Limit.Algorithm.Step(rowA, a.Limit, askA)
	passed := decisionA.Allowed()
	if !passed {
		askB.Verb = weir.Peek
	}
	decisionB := b.Limit.Algorithm.Step(rowB, b.Limit, askB)
	if passed && !decisionB.Allowed() {
		passed = false
		copy(rowA, before[:])
		askA.Verb = weir.Peek
		decisionA = a.Limit.Algorithm.Step(rowA, a.Limit, askA)
	}
	a.Answer.Set(decisionA, now, 0, passed, false)
	b.Answer.Set(decisionB, now, 0, passed, false)
	return true
}
