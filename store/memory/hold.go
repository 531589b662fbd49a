package memory

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
)

// locateOps checks ops and finds the table and the tag of each.
func (s *Store) locateOps(ops []weir.Op, all []taken) error {
	for i := range ops {
		o, p := &ops[i], &all[i]
		if o.Role == weir.Deny {
			continue
		}
		if err := checkCost(o); err != nil {
			return err
		}
		p.table = s.tables.tableFor(o.Limit)
		if p.table == nil || o.Limit.Traits()&(weir.Sketches|weir.Leases) != 0 {
			a := weir.Ask{ID: o.ID, Verb: o.Verb}
			if err := s.refuses(o.Limit, &a); err != nil {
				return err
			}
		}
		p.tag = s.tables.tagOfKey(o.Key, o.Limit)
		if o.Limit.Traits()&weir.Sketches != 0 {
			w, err := s.sketches.windowFor(o.Limit)
			if err != nil {
				return err
			}
			p.window = w
			p.table = s.tables.bySize[1]
		}
		for j := range i {
			e, of := &all[j], ops[j].Limit
			if weir.CounterID(of) != 0 && weir.CounterID(of) == weir.CounterID(o.Limit) && of.RowID() != o.Limit.RowID() && ops[j].Key == o.Key && ops[j].Role != weir.Deny {
				// The row is kept by the price of the first.
				if p.of = e.of; p.of == nil {
					p.of = of
				}
				p.tag, p.table = e.tag, e.table
			}
			if e.tag != p.tag || e.table != p.table {
				continue
			}
			p.again = true
			if takesFrom(&ops[j], o) {
				p.earlier = min(p.earlier+ops[j].Cost, weir.MaxCost+1)
			}
		}
		if p.earlier+o.Cost+o.Headroom > weir.MaxCost {
			return weir.ErrCost
		}
	}
	return nil
}

// takesFrom reports whether what earlier takes is no longer there for o, an op on
// the same key. Asking twice for one lease is asking once.
func takesFrom(earlier, o *weir.Op) bool {
	if earlier.Verb == weir.Peek || earlier.Verb == weir.Refund {
		return false
	}
	return o.Limit.Traits()&weir.Leases == 0 || earlier.ID != o.ID
}

// holdSegments locks the segments of all ops and sees to it that every op has its row,
// or room for one, or a sketch.
func (s *Store) holdSegments(ops []weir.Op, all []taken, locks lockSet) lockSet {
	for {
		locks = locks[:0]
		for i := range all {
			if p := &all[i]; p.table != nil {
				p.segment = p.table.segment(p.tag)
				locks = locks.withSegment(p.segment)
				p.eachOtherRow(&s.tables, &ops[i], func(_ *weir.Limit, at slot) { locks = locks.withSegment(at.segment) })
			}
		}
		locks.lock()
		i, need := s.lacking(ops, all, locks)
		if i < 0 {
			return locks
		}
		locks.unlock()
		if need == 0 {
			continue // a segment has split or merged meanwhile
		}
		// With nothing else locked: growing takes its time.
		p := &all[i]
		if need == roomForChanged {
			s.makeChanged(p, &ops[i], len(all))
			continue
		}
		g := p.table.lockSegment(p.tag)
		now := g.decisionTime(s.clock)
		if int(g.used)+need > g.maxRows() {
			p.full = !p.table.makeRoom(g, need, now)
		} else {
			p.full = p.table.slabs != nil
		}
		g.mu.Unlock()
		if p.full {
			l := ops[i].Limit
			if s.sketches.overflowFor(l, now) == nil {
				s.sketches.openOverflow(l, now)
			}
		}
	}
}

// roomForChanged is a need of rows in the segment of a changed row.
const roomForChanged = -1

// lacking returns the number of the first op that cannot go on, and how many rows its segment
// needs, none if it has to be looked up anew.
func (s *Store) lacking(ops []weir.Op, all []taken, locks lockSet) (at, need int) {
	for i := range all {
		p := &all[i]
		if p.table == nil {
			continue
		}
		locked := p.segment.coversTag(p.tag)
		p.eachOtherRow(&s.tables, &ops[i], func(_ *weir.Limit, at slot) {
			locked = locked && slices.Contains(locks, at.segment) && at.segment.coversTag(at.tag)
		})
		if !locked {
			return i, 0
		}
		if p.window != nil {
			continue
		}
		p.overflow = nil
		if p.at, p.found = p.segment.findRow(p.tag); p.found {
			continue
		}
		if known := s.versions.listWith(ops[i].Limit); len(known) > max(len(p.versions), 1) {
			p.versions = known
			return i, 0
		}
		if p.lacksChanged(&s.tables, &ops[i], len(all)) {
			return i, roomForChanged
		}
		need = 0
		for j := range all[:i+1] {
			if q := &all[j]; q.segment == p.segment && !q.found && !q.again && q.window == nil && q.overflow == nil {
				need++
			}
		}
		if int(p.segment.used)+need <= p.segment.maxRows() && (p.table.slabs == nil || p.table.slabs.hasRoomFor(ops[i].Limit)) {
			continue
		}
		if !p.full {
			return i, need
		}
		if p.overflow = p.table.sketches.overflowFor(ops[i].Limit, s.clock.now(0)); p.overflow == nil {
			return i, need
		}
	}
	return -1, 0
}

// A lockSet is segments in the order of their numbers, each once. It is passed
// and returned by value, so that its array stays on the stack.
type lockSet []*segment

func (k lockSet) withSegment(g *segment) lockSet {
	i := len(k)
	for i > 0 && k[i-1].num > g.num {
		i--
	}
	if i > 0 && k[i-1] == g {
		return k
	}
	k = append(k, nil)
	copy(k[i+1:], k[i:])
	k[i] = g
	return k
}

func (k lockSet) lock() {
	for _, g := range k {
		g.mu.Lock()
	}
}

// decisionTime returns the time for a decision in all of k, which are locked.
func (k lockSet) decisionTime(c *clock) int64 {
	last := int64(0)
	for _, g := range k {
		last = max(last, g.latest)
	}
	now := c.now(last)
	for _, g := range k {
		g.latest = now
	}
	return now
}

func (k lockSet) unlock() {
	for _, g := range k {
		g.mu.Unlock()
	}
}

func checkCost(o *weir.Op) error {
	if uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost {
		return weir.ErrCost
	}
	return nil
}

// refuses returns why nothing can be asked of l.
func (s *Store) refuses(l *weir.Limit, a *weir.Ask) error {
	switch {
	case s.closed.Load():
		return weir.ErrClosed
	case l.Cells == 0:
		return fmt.Errorf("store memory: limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	case l.Traits()&weir.Leases != 0 && a.ID == 0 && a.Verb != weir.Peek:
		return weir.ErrNoLease
	case l.Traits()&weir.Sketches != 0 && a.Verb == weir.Refund:
		return weir.ErrRefund
	}
	return nil
}
