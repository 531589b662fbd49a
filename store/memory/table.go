package memory

import (
	"math"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

const (
	topBits = 6
	tops    = 1 << topBits
	// maxBits keeps the bits that choose a segment apart from those that choose
	// a row.
	maxBits = 32
	// sweepPause is how long a segment is left alone after it was searched for
	// expired rows, in microseconds, and sweepRest how long if none will expire
	// sooner.
	sweepPause = 100_000
	sweepRest  = 1_000_000
)

// A table keeps the rows of one length. It is a hash table of segments
// (extendible hashing): a segment that is full grows in small steps and then
// splits, so that no copy is larger than one segment and the table is never
// much emptier than it could be.
type table struct {
	arena *arena
	// sketches know the keys that found no room in the table.
	sketches *sketches
	words    int
	// slabs holds the cells of rows too long for a segment. Such a row is a tag
	// and a reference. Nil where the cells are in the row.
	slabs *slabs
	tops  [tops]top

	reused, splits, shrinks atomic.Uint64
}

func newTable(a *arena, k *sketches, words int, sl *slabs) *table {
	t := &table{arena: a, sketches: k, words: words, slabs: sl}
	for i := range t.tops {
		g := a.newSegment(uint32(i), topBits, uint8(words))
		g.equipCells(a.takeCells(t.sizeLadder()[0]))
		d := &directory{segments: make([]atomic.Pointer[segment], 1)}
		d.segments[0].Store(g)
		t.tops[i].directory.Store(d)
		a.account(directoryBytes(1))
	}
	return t
}

func (t *table) sizeLadder() []int {
	if t.slabs != nil {
		return wide[:]
	}
	return narrow[:]
}

const segmentBytes = 64

// segment returns the segment that tag belongs to, or belonged to a moment ago.
func (t *table) segment(tag uint64) *segment {
	d := t.tops[tag>>(64-topBits)].directory.Load()
	return d.segments[tag<<topBits>>(64-d.depth)].Load()
}

// eachSegment calls f with every segment, locked. A key that moves between segments
// meanwhile may be met twice or not at all.
func (t *table) eachSegment(f func(*segment)) {
	for i := range t.tops {
		t.tops[i].eachSegment(f)
	}
}

// lockSegment returns the segment of tag, locked.
func (t *table) lockSegment(tag uint64) *segment {
	for {
		g := t.segment(tag)
		g.mu.Lock()
		if g.coversTag(tag) {
			return g
		}
		g.mu.Unlock()
	}
}

// expiryStamp returns the expiry stamp of the row at at.
func (t *table) expiryStamp(g *segment, at int) int64 {
	stamp := g.cells[at+1]
	if t.slabs != nil && stamp != 0 {
		stamp = t.slabs.cellsOf(ref(stamp))[0]
	}
	return stamp
}

// expired reports whether the row at at is as if never seen.
func (t *table) expired(g *segment, at int, edge int64) bool { return t.expiryStamp(g, at) <= edge }

// findVacant returns where a row for tag can be made: an expired one that a search
// passes, else empty, where the search ends. Its cells are zero.
func (t *table) findVacant(g *segment, tag uint64, empty int, edge int64) int {
	for at := g.homeRow(tag); at != empty; at = g.nextRow(at) {
		if t.expired(g, at, edge) {
			t.wipeRow(g, at)
			return at
		}
	}
	return empty
}

// wipeRow makes the cells of the row at at zero. Its tag stays.
func (t *table) wipeRow(g *segment, at int) {
	if t.slabs != nil && g.cells[at+1] != 0 {
		t.slabs.freeRow(ref(g.cells[at+1]))
	}
	clear(g.cellsAt(at))
}

// claimRow writes tag into the row at at, which vacant returned.
func (t *table) claimRow(g *segment, at int, tag uint64) {
	if g.cells[at] == 0 {
		g.used++
	} else {
		t.reused.Add(1)
	}
	g.cells[at] = int64(tag)
}

// dropRow removes the row at at.
func (t *table) dropRow(g *segment, at int) {
	t.wipeRow(g, at)
	g.removeRow(at)
}

// makeRoom makes g ready for need more rows, by dropping expired ones or by
// growing. It reports false when the store is full. Afterwards a tag that g
// covered may belong to another segment.
//
// Requires: g is locked.
func (t *table) makeRoom(g *segment, need int, now int64) bool {
	if !g.needsNoSweep(now) {
		earliest := t.dropExpired(g, expiryEdge(now))
		g.sweepAt = wrappedMillis(min(max(earliest>>weir.FractionBits, now+sweepPause), now+sweepRest))
		if int(g.used)+need <= g.maxRows() {
			return true
		}
	}
	ladder := t.sizeLadder()
	for _, bytes := range ladder {
		rows := bytes / 8 / t.words
		if rows > int(g.rows) && capacity(rows) >= int(g.used)+need {
			if !t.arena.hasRoomFor(int64(bytes - 8*cap(g.cells))) {
				return false
			}
			t.rehashSegment(g, bytes)
			return true
		}
	}
	// Nothing larger: two segments. An op that needs more room than one of them
	// has asks again.
	return t.splitSegment(g)
}

// dropExpired removes the expired rows of g and returns the earliest stamp of
// the others.
func (t *table) dropExpired(g *segment, edge int64) (earliest int64) {
	expired := 0
	earliest = math.MaxInt64
	for at := 0; at < len(g.cells); at += t.words {
		if g.cells[at] == 0 {
			continue
		}
		if stamp := t.expiryStamp(g, at); stamp <= edge {
			expired++
		} else {
			earliest = min(earliest, stamp)
		}
	}
	switch {
	case expired == 0:
	case expired <= 16:
		// Each removal moves its neighbours, a few rows.
		for at := 0; at < len(g.cells) && expired > 0; {
			if g.cells[at] != 0 && t.expired(g, at, edge) {
				t.dropRow(g, at)
				expired--
				continue // another row may have moved here
			}
			at += t.words
		}
		// A row that moved from the front to the end, over the seam, was seen
		// before it moved.
	default:
		for at := 0; at < len(g.cells); at += t.words {
			if g.cells[at] != 0 && t.expired(g, at, edge) {
				t.wipeRow(g, at)
				g.cells[at] = 0
				g.used--
			}
		}
		t.rehashSegment(g, 8*cap(g.cells))
	}
	return earliest
}

// rehashSegment moves the rows of g into cells of the given size.
func (t *table) rehashSegment(g *segment, bytes int) {
	old := g.cells
	g.equipCells(t.arena.takeCells(bytes))
	g.insertRows(old)
	t.arena.recycle(old)
}

// splitSegment halves g: rows with the next tag bit set go to a new segment.
func (t *table) splitSegment(g *segment) bool {
	if g.bits >= maxBits {
		return false
	}
	bit := uint64(1) << (63 - g.bits)
	upper := 0
	for at := 0; at < len(g.cells); at += t.words {
		if uint64(g.cells[at])&bit != 0 {
			upper++
		}
	}
	low, high := t.sizeFor(int(g.used)-upper), t.sizeFor(upper)
	if !t.arena.hasRoomFor(int64(low+high-8*cap(g.cells)) + segmentBytes) {
		return false
	}
	old := g.cells
	h := t.arena.newSegment(g.prefix<<1|1, g.bits+1, g.words)
	h.latest = g.latest
	g.equipCells(t.arena.takeCells(low))
	h.equipCells(t.arena.takeCells(high))
	for at := 0; at < len(old); at += t.words {
		switch row := old[at : at+t.words]; {
		case row[0] == 0:
		case uint64(row[0])&bit != 0:
			h.insertRow(row)
		default:
			g.insertRow(row)
		}
	}
	g.prefix <<= 1
	g.bits++
	t.arena.recycle(old)
	t.publish(h)
	t.splits.Add(1)
	return true
}

// sizeFor returns the least size, in bytes, that holds used rows and a few
// more.
func (t *table) sizeFor(used int) int {
	ladder := t.sizeLadder()
	for _, bytes := range ladder {
		if capacity(bytes/8/t.words) >= used+used/16+1 {
			return bytes
		}
	}
	return ladder[len(ladder)-1]
}
