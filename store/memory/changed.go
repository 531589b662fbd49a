package memory

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir"
)

// A changed row is what a key keeps after its limit has changed so that the new row cannot
// say all that the old one did: a shorter period, for example, or another algorithm. It has
// both, and what is spent is charged to both until all that the old row, an elder, counted
// is over. So a limit that is changed back finds what was spent, before and since.
//
//	12:00  10,000/hour       spends 9,000     hour: 9,000
//	12:10  100/minute                         minute: 9,000   elder: hour 9,000, until 13:00
//	12:12  100/minute        spends 100       minute: 100     elder: hour 9,100, until 13:00
//	12:13  10,000/hour                        hour: 9,100     elder: minute 100, until 12:13
//
// Its cells are until when any of it matters, and for each version, the last one first, its
// RowID, until when it is kept, and its cells. Changed rows of a counter are where no limit
// looks first: the keys that no change touched keep their rows, and are found as fast.
//
// See slot.applyToRow for how it is charged.

// maxElders bounds the elders of a row: of more that which ends first goes.
const maxElders = 6

// carryRow has p go where its key has a row of another version, or moves what that row says to
// where p has found none. It reports whether rows have moved. Where the store is full the
// row stays, unless it makes the room.
//
// Requires: the locks of all segments of p, where it needs no room or has it.
func (s *Store) carryRow(p *taken, o *weir.Op, now int64) (moved bool) {
	l := o.Limit
	if p.of != nil {
		l = p.of
	}
	changed := s.tables.changedSlot(o.Key, l)
	olds, from := p.oldVersions(&s.tables, o, changed, now)
	if len(olds) == 0 {
		return false
	}
	if from.tag == changed.tag && olds[0].l.RowID() == l.RowID() && len(olds) > 1 {
		from.of, from.elders = p.of, olds[1:]
		p.slot, p.overflow = from, nil
		return true
	}
	if p.overflow != nil && from.segment != p.segment {
		return false
	}
	own, elders := carryVersions(l, olds, now)
	from.table.dropRow(from.segment, from.at)
	switch {
	case len(elders) > 0 && int(changed.segment.used) < changed.segment.maxRows():
		changed.of, changed.elders = p.of, elders
		p.slot, p.overflow = changed, nil
	case own[0] <= expiryEdge(now):
		return true
	}
	if p.findRow(now); p.found && len(p.elders) == 0 {
		return true
	}
	row, _ := p.rowWithRoom(l, weir.Ask{}, true)
	if len(elders) > 0 && p.tag == changed.tag {
		row[0] = own[0]
		rest := putVersion(row[changedHead:], version{l, own, 0})
		for i, v := range elders {
			row[0] = max(row[0], v.until)
			elders[i].cells = rest[versionHead:][:v.l.Cells]
			rest = putVersion(rest, v)
		}
	} else {
		copy(row, own)
	}
	p.table.claimRow(p.segment, p.at, p.tag)
	p.found, p.overflow = true, nil
	return true
}

// putVersion writes v to the begin of row, and returns the rest.
func putVersion(row []int64, v version) []int64 {
	row[0], row[1] = int64(v.l.RowID()), v.until
	copy(row[versionHead:], v.cells)
	return row[versionHead+v.l.Cells:]
}

// carryVersions returns the cells under l of a key that has olds, the last of which is the first,
// and which of them have to be kept.
func carryVersions(l *weir.Limit, olds []version, now int64) (own []int64, elders []version) {
	source := slices.IndexFunc(olds, func(v version) bool { return v.l.RowID() == l.RowID() })
	whole, most := source >= 0, int64(0)
	if whole {
		own = slices.Clone(olds[source].cells)
	} else {
		// Where the last does not tell all that l asks for, that which tells most does.
		for i, v := range olds {
			carrier, cells, units := l.Algorithm.(weir.Carrier), make([]int64, l.Cells), int64(0)
			all := carrier.Carry(cells, l, v.cells, v.l, now)
			carrier.Spent(cells, l, now, func(_, n int64) { units += n })
			if own == nil || units > most {
				source, whole, most, own = i, all, units, cells
			}
			if l.Period <= v.l.Period && v.l.Algorithm.(weir.Carrier).Spent(v.cells, v.l, now, func(int64, int64) {}) {
				break
			}
		}
	}
	for i, v := range olds {
		if i == source && whole || v.until <= expiryEdge(now) {
			continue
		}
		v.cells = slices.Clone(v.cells)
		elders = append(elders, v)
	}
	if len(elders) > maxElders {
		slices.SortFunc(elders, func(a, b version) int { return cmp.Compare(b.until, a.until) })
		elders = elders[:maxElders]
	}
	return own, elders
}

// oldVersions returns the versions under which the key has a row, the last one first, and where
// that is.
func (p *taken) oldVersions(t *tables, o *weir.Op, changed slot, now int64) (olds []version, from slot) {
	if changed.at, changed.found = changed.segment.findRow(changed.tag); changed.found {
		var rest []int64
		if !changed.table.expired(changed.segment, changed.at, expiryEdge(now)) {
			rest = changed.foundCells()[changedHead:]
		}
		for len(rest) > 0 {
			v := version{l: p.version(rest[0]), until: rest[1]}
			if v.l == nil {
				break
			}
			v.cells, rest = rest[versionHead:][:v.l.Cells], rest[versionHead+v.l.Cells:]
			if len(olds) == 0 {
				v.until = v.cells[0]
			} else if v.until <= expiryEdge(now) {
				continue
			}
			olds = append(olds, v)
		}
		if len(olds) > 0 {
			return olds, changed
		}
	}
	p.eachOtherRow(t, o, func(was *weir.Limit, at slot) {
		if was == nil {
			return
		}
		if at.at, at.found = at.segment.findRow(at.tag); at.found {
			cells := make([]int64, was.Cells) // one that is over is dropped all the same: it would be found first
			if !at.table.expired(at.segment, at.at, expiryEdge(now)) {
				cells = at.foundCells()
			}
			olds, from = append(olds[:0], version{was, cells, cells[0]}), at
		}
	})
	return olds, from
}

// version returns the version with a RowID, nil if it is not known.
func (p *taken) version(id int64) *weir.Limit {
	for _, l := range p.versions {
		if l.RowID() == uint64(id) {
			return l
		}
	}
	return nil
}

// lacksChanged reports whether the segment of o's changed row has no room for n more.
func (p *taken) lacksChanged(t *tables, o *weir.Op, n int) bool {
	if len(p.versions) < 2 || p.crowded {
		return false
	}
	g := t.changedSlot(o.Key, o.Limit).segment
	return int(g.used)+n > g.maxRows()
}

// makeChanged makes the room for n more changed rows where o's would be.
func (s *Store) makeChanged(p *taken, o *weir.Op, n int) {
	c := s.tables.changedSlot(o.Key, o.Limit)
	g := c.table.lockSegment(c.tag)
	if now := g.decisionTime(s.clock); int(g.used)+n > g.maxRows() {
		p.crowded = !c.table.makeRoom(g, n, now)
	}
	g.mu.Unlock()
}
