package memory

import (
	"context"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
)

// Inspect returns a copy of the state that is kept for key under l, for the eyes
// of an operator, and whether there is any. A key that is decided from a sketch
// has none.
func (s *Store) Inspect(_ context.Context, key string, l *weir.Limit) (cells []int64, found bool, err error) {
	err = s.inspect(key, l, func(p *slot) {
		cells, found = slices.Clone(p.foundCells()), true
		if p.tag != s.tables.tagOfKey(key, l) { // a changed row, in which the last version is the first
			cells = cells[changedHead+versionHead:][:l.Cells]
		}
	})
	return cells, found, err
}

// Forget makes key under l as if never seen, and reports whether anything was
// known of it. What a sketch knows of it stays: others share it.
func (s *Store) Forget(_ context.Context, key string, l *weir.Limit) (found bool, err error) {
	err = s.inspect(key, l, func(p *slot) {
		found = true
		p.table.dropRow(p.segment, p.at)
	})
	return found, err
}

// inspect calls f with the place of key if it is kept and not expired.
func (s *Store) inspect(key string, l *weir.Limit, f func(*slot)) error {
	if err := s.refuses(l, &weir.Ask{Verb: weir.Peek}); err != nil {
		return err
	}
	if len(s.versions.listWith(l)) > 1 { // a look moves the row of another version here
		if _, err := s.oneOfVersions(key, l, weir.Ask{Verb: weir.Peek}); err != nil {
			return err
		}
	}
	slots, now := []slot{{table: s.tables.tableFor(l), tag: s.tables.tagOfKey(key, l)}}, s.clock.now(0)
	if weir.CounterID(l) != 0 {
		slots = append(slots, s.tables.changedSlot(key, l))
	}
	for _, p := range slots {
		p.segment = p.table.lockSegment(p.tag)
		p.at, p.found = p.segment.findRow(p.tag)
		if p.found = p.found && !p.table.expired(p.segment, p.at, expiryEdge(now)); p.found {
			f(&p)
		}
		p.segment.mu.Unlock()
		if p.found {
			break
		}
	}
	return nil
}

// Stats says how full a store is and what it had to do. Counts are since New.
type Stats struct {
	// Keys is how many keys have a row, expired ones that still have one
	// included.
	Keys int64
	// Bytes is the memory of tables and sketches, MaxBytes its bound. Sketches
	// of approximate limits are not in it: their limits ask for them.
	Bytes, MaxBytes int64
	// OverflowBytes is the part of Bytes in sketches for keys without room.
	OverflowBytes int64
	// ApproximateBytes is the memory of the sketches of approximate limits.
	ApproximateBytes int64
	// Overflows is how many sketches for keys without room there are. Above zero
	// the store is full, or was a moment ago.
	Overflows int
	// Overflowed counts decisions on keys without room.
	Overflowed uint64
	// Reused counts rows of expired keys that were given to new ones.
	Reused uint64
	// Splits and Shrinks count how often a segment was divided, and how often one
	// was made smaller or merged into another.
	Splits, Shrinks uint64
}

// Stats returns how full the store is. It locks one segment after the other, for
// a few nanoseconds each.
func (s *Store) Stats() Stats {
	set := s.sketches.live.Load()
	st := Stats{
		Bytes: s.tables.arena.bytes.Load() + s.sketches.bytes.Load(), MaxBytes: s.tables.arena.maxBytes + s.sketches.maxBytes,
		OverflowBytes: s.sketches.bytes.Load(), Overflows: len(set.overflow),
		Overflowed: s.sketches.overflowed.Load(),
	}
	for _, w := range set.windows {
		st.ApproximateBytes += w.Bytes()
	}
	for _, t := range s.tables.bySize[1:] {
		st.Reused, st.Splits, st.Shrinks = st.Reused+t.reused.Load(), st.Splits+t.splits.Load(), st.Shrinks+t.shrinks.Load()
		t.eachSegment(func(g *segment) { st.Keys += int64(g.used) })
	}
	return st
}

// Approximate returns how exact the sketch of the approximate limit l is, and
// false if it was never used.
func (in inside) Approximate(l *weir.Limit) (sketch.Stats, bool) {
	s := in.of
	w := s.sketches.live.Load().windows[windowKeyOf(l)]
	if w == nil {
		return sketch.Stats{}, false
	}
	return w.Stats(s.clock.now(0)), true
}
