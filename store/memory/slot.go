package memory

import (
	"hash/maphash"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// fullRetry is the RetryAfter of a new key that a full store refuses because
// its algorithm's state cannot be estimated: that of concurrency limits and of
// queues. It is a guess, as nobody knows when there will be room.
const fullRetry = time.Second

// A slot is where a key's row is, or would be. It holds as long as the segment
// is locked and no other row is made in it.
type slot struct {
	table   *table
	segment *segment
	tag     uint64
	at      int
	found   bool
	// of is the limit by whose price the row is kept, nil for that of the op.
	of *weir.Limit
	// elders are those of a changed row, with cells in the row.
	elders []version
}

// What stands in a changed row before its cells.
const (
	changedHead = 1 // cells before the first version
	versionHead = 2 // cells of each before its own
)

// A version is a limit, and the cells that a key has under it until a stamp.
type version struct {
	l     *weir.Limit
	cells []int64
	until int64
}

// changedSlot returns where the changed row of a key would be.
func (t *tables) changedSlot(key string, l *weir.Limit) slot {
	p := slot{table: t.bySize[maxDirect+1], tag: max(maphash.String(t.seed, key)^weir.CounterID(l), 1)}
	p.segment = p.table.segment(p.tag)
	return p
}

// foundCells returns the cells of a row that was found and is not empty.
func (p *slot) foundCells() []int64 {
	if p.table.slabs != nil {
		return p.table.slabs.cellsOf(ref(p.segment.cells[p.at+1]))
	}
	return p.segment.cellsAt(p.at)
}

// findRow looks for the row, and if there is none, for where to make one.
func (p *slot) findRow(now int64) {
	t, g := p.table, p.segment
	p.at, p.found = g.findRow(p.tag)
	if !p.found {
		p.at = t.findVacant(g, p.tag, p.at, expiryEdge(now))
	} else if t.slabs != nil && t.expired(g, p.at, expiryEdge(now)) {
		// A row that has grown starts short again.
		t.wipeRow(g, p.at)
	}
}

// needsRow reports whether the key needs an empty row, of which the segment has
// none to give.
func (p *slot) needsRow() bool {
	g := p.segment
	return !p.found && g.cells[p.at] == 0 && int(g.used) >= g.maxRows()
}

// stepRow runs the algorithm on the row, which it makes if need be. A new key of
// which nothing has to be remembered leaves no trace. must takes memory for the
// row even if the store is full; else step reports false if it is.
func (p *slot) stepRow(l *weir.Limit, a weir.Ask, must bool) (weir.Decision, bool) {
	t, g := p.table, p.segment
	row, ok := p.beginRow(l, a, must)
	if !ok {
		return weir.Decision{}, false
	}
	d := p.applyToRow(row, l, a)
	switch {
	case p.found:
	case row[0] > expiryEdge(a.Now) && a.Verb != weir.Peek:
		t.claimRow(g, p.at, p.tag)
		p.found = true
	default:
		t.wipeRow(g, p.at)
	}
	return d, true
}

// beginRow returns the row, with room for a. A new row starts from what a sketch
// knows of the key: it was there while the store was full.
func (p *slot) beginRow(l *weir.Limit, a weir.Ask, must bool) ([]int64, bool) {
	if p.found {
		return p.rowWithRoom(l, a, must)
	}
	stamp, units := p.table.sketches.recallKey(p.tag, l, a.Now)
	if units > 0 {
		f := weir.Ask{Now: a.Now, Cost: units, ID: a.ID, Verb: weir.Force}
		row, ok := p.rowWithRoom(l, f, must)
		if !ok {
			return nil, false
		}
		p.applyToRow(row, l, f)
	}
	row, ok := p.rowWithRoom(l, a, must)
	if !ok {
		p.table.wipeRow(p.segment, p.at)
		return nil, false
	}
	if stamp > 0 {
		row[0] = stamp
	}
	return row, true
}

// rowWithRoom returns the cells, at least as many as a needs.
func (p *slot) rowWithRoom(l *weir.Limit, a weir.Ask, must bool) ([]int64, bool) {
	sl, g := p.table.slabs, p.segment
	if sl == nil {
		return g.cellsAt(p.at), true
	}
	r := ref(g.cells[p.at+1])
	row := sl.zero[:]
	if r != 0 {
		row = sl.cellsOf(r)
	}
	if p.of != nil {
		l = p.of
	}
	need, most := l.Cells, l.Cells
	if len(p.elders) > 0 {
		most += changedHead + versionHead
		for _, v := range p.elders {
			most += versionHead + v.l.Cells
		}
		need = most
	}
	if l.Traits()&weir.Grows != 0 {
		need = l.Algorithm.(weir.Grower).Room(row[:min(len(row), l.Cells)], l, a)
		need = roundWords(min(max(need, 1), l.Cells), l)
	}
	if r == 0 || len(row) < need {
		n, ok := sl.allocateRow(need, must)
		if !ok {
			return nil, false
		}
		g.cells[p.at+1] = int64(n)
		if r != 0 {
			copy(sl.cellsOf(n), row)
			sl.freeRow(r)
		}
		row = sl.cellsOf(n)
	}
	return row[:min(len(row), most)], true
}

// refuseNew answers for a key that can neither be kept nor estimated.
func refuseNew(l *weir.Limit, a weir.Ask) weir.Decision {
	d := weir.Decision{Limit: l.From(weir.FromSketch), RetryAfter: fullRetry}
	if a.Cost == 0 || a.Verb == weir.Refund {
		d.RetryAfter = 0
	}
	return d
}

// overflowFor returns what decides for a key that found no room, nil if it has yet to
// be opened. A key with a row that cannot grow is refused: a sketch knows
// nothing of it.
func (p *slot) overflowFor(l *weir.Limit, now int64) *overflow {
	if p.found {
		return refusing
	}
	return p.table.sketches.overflowFor(l, now)
}

// estimate answers for a key that has no row from the sketch o. The empty row
// at the place lends its cells.
func (p *slot) estimate(o *overflow, l *weir.Limit, a weir.Ask) weir.Decision {
	switch {
	case o.stamps != nil:
		return p.estimateStamp(o, l, a)
	case o.window != nil:
		return estimateUnits(o, l, a, p.tag)
	}
	return refuseNew(l, a)
}

func (p *slot) estimateStamp(o *overflow, l *weir.Limit, a weir.Ask) weir.Decision {
	if a.Verb == weir.Refund {
		// Others share the stamps: they cannot be lowered.
		a.Cost = 0
	}
	row := p.segment.cellsAt(p.at)
	shard := o.stamps.Shard(o.stamps.ShardIndex(p.tag))
	shard.Lock()
	known := wholeMicros(shard.Estimate(p.tag))
	if known > expiryEdge(a.Now) {
		row[0] = known
	}
	d := p.applyToRow(row, l, a)
	if row[0] > known {
		shard.RaiseStamps(p.tag, row[0])
	}
	shard.Unlock()
	o.matters(row[0] >> weir.FractionBits)
	clear(row)
	d.Limit = l.From(weir.FromSketch)
	return d
}

func estimateUnits(o *overflow, l *weir.Limit, a weir.Ask, tag uint64) weir.Decision {
	if a.Verb == weir.Refund {
		a.Verb = weir.Peek
		a.Cost = 0
	}
	d := stepWindow(o.window, tag, l, a)
	o.matters(a.Now + micros.Of(d.ResetAfter))
	d.Limit = l.From(weir.FromSketch)
	return d
}

// applyToRow runs the algorithm of l on a row. The elders of a changed row are charged as well.
func (p *slot) applyToRow(row []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	if len(p.elders) == 0 {
		return p.applyOwn(row, l, a)
	}
	own := row[changedHead+versionHead:]
	d := p.applyOwn(own, l, a)
	row[0] = own[0]
	for _, v := range p.elders {
		if a.Verb == weir.Force || a.Verb == weir.Spend && d.Allowed() {
			v.l.Algorithm.Step(v.cells, v.l, weir.Ask{Now: a.Now, Cost: a.Cost, ID: a.ID, Verb: weir.Force})
		}
		row[0] = max(row[0], v.until)
	}
	return d
}

// applyOwn is apply for a row of one version. If it is kept by the price of p.of, l decides
// by what it is under its own, and the row is charged as it is.
func (p *slot) applyOwn(row []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	if p.of == nil {
		return l.Algorithm.Step(row, l, a)
	}
	cells := make([]int64, l.Cells)
	l.Algorithm.(weir.Carrier).Carry(cells, l, row, p.of, a.Now)
	d := l.Algorithm.Step(cells, l, a)
	if a.Verb == weir.Spend {
		if a.Verb = weir.Force; !d.Allowed() {
			a.Verb = weir.Peek
		}
	}
	p.of.Algorithm.Step(row[:p.of.Cells], p.of, a)
	return d
}
