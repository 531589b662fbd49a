package memory

import (
	"math"
	"sync"
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
	store *Store
	words int
	// slabs holds the cells of rows too long for a segment. Such a row is a tag
	// and a reference. Nil where the cells are in the row.
	slabs *slabs
	tops  [tops]top
}

// A top is the part of a table with the same upper tag bits.
type top struct {
	directory atomic.Pointer[directory]
	// mu guards replacing the directory and its entries. It is taken last, under
	// the locks of the segments concerned.
	mu sync.Mutex
}

// A directory finds the segment of a tag by depth bits that follow those of the
// top. A segment with fewer bits stands in several places.
type directory struct {
	depth    uint8
	segments []atomic.Pointer[segment]
}

func newTable(s *Store, words int, sl *slabs) *table {
	t := &table{store: s, words: words, slabs: sl}
	for i := range t.tops {
		g := &segment{num: s.nextNum(), prefix: uint32(i), bits: topBits, words: uint8(words)}
		g.equip(s.cells(t.ladder()[0]))
		d := &directory{segments: make([]atomic.Pointer[segment], 1)}
		d.segments[0].Store(g)
		t.tops[i].directory.Store(d)
		s.account(segmentBytes + directoryBytes(1))
	}
	return t
}

const segmentBytes = 64

func directoryBytes(entries int) int64 { return 32 + 8*int64(entries) }

// segment returns the segment that tag belongs to, or belonged to a moment ago.
func (t *table) segment(tag uint64) *segment {
	d := t.tops[tag>>(64-topBits)].directory.Load()
	return d.segments[tag<<topBits>>(64-d.depth)].Load()
}

// lock returns the segment of tag, locked.
func (t *table) lock(tag uint64) *segment {
	for {
		g := t.segment(tag)
		g.mu.Lock()
		if g.covers(tag) {
			return g
		}
		g.mu.Unlock()
	}
}

// stamp returns the expiry stamp of the row at at.
func (t *table) stamp(g *segment, at int) int64 {
	stamp := g.cells[at+1]
	if t.slabs != nil && stamp != 0 {
		stamp = t.slabs.row(ref(stamp))[0]
	}
	return stamp
}

// expired reports whether the row at at is as if never seen.
func (t *table) expired(g *segment, at int, edge int64) bool { return t.stamp(g, at) <= edge }

// vacant returns where a row for tag can be made: an expired one that a search
// passes, else empty, where the search ends. Its cells are zero.
func (t *table) vacant(g *segment, tag uint64, empty int, edge int64) int {
	for at := g.home(tag); at != empty; at = g.next(at) {
		if t.expired(g, at, edge) {
			t.wipe(g, at)
			return at
		}
	}
	return empty
}

// wipe makes the cells of the row at at zero. Its tag stays.
func (t *table) wipe(g *segment, at int) {
	if t.slabs != nil && g.cells[at+1] != 0 {
		t.slabs.free(ref(g.cells[at+1]))
	}
	clear(g.row(at))
}

// claim writes tag into the row at at, which vacant returned.
func (t *table) claim(g *segment, at int, tag uint64) {
	if g.cells[at] == 0 {
		g.used++
	} else {
		t.store.reused.Add(1)
	}
	g.cells[at] = int64(tag)
}

// drop removes the row at at.
func (t *table) drop(g *segment, at int) {
	t.wipe(g, at)
	g.remove(at)
}

// makeRoom makes g ready for need more rows, by dropping expired ones or by
// growing. It reports false when the store is full. Afterwards a tag that g
// covered may belong to another segment.
//
// Requires: g is locked.
func (t *table) makeRoom(g *segment, need int, now int64) bool {
	if !g.idle(now) {
		earliest := t.dropExpired(g, edge(now))
		g.sweepAt = millis(min(max(earliest>>weir.FractionBits, now+sweepPause), now+sweepRest))
		if int(g.used)+need <= g.limit() {
			return true
		}
	}
	ladder := t.ladder()
	for _, bytes := range ladder {
		rows := bytes / 8 / t.words
		if rows > int(g.rows) && capacity(rows) >= int(g.used)+need {
			return t.resize(g, bytes)
		}
	}
	// Nothing larger: two segments. An op that needs more room than one of them
	// has asks again.
	return t.split(g)
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
		if stamp := t.stamp(g, at); stamp <= edge {
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
				t.drop(g, at)
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
				t.wipe(g, at)
				g.cells[at] = 0
				g.used--
			}
		}
		t.rehash(g, t.store.cells(8*cap(g.cells)))
	}
	return earliest
}

// resize moves the rows of g into cells of the given size.
func (t *table) resize(g *segment, bytes int) bool {
	if !t.store.fits(int64(bytes - 8*cap(g.cells))) {
		return false
	}
	t.rehash(g, t.store.cells(bytes))
	return true
}

// rehash moves the rows of g into cells, which are zero.
func (t *table) rehash(g *segment, cells []int64) {
	old := g.cells
	g.equip(cells)
	for at := 0; at < len(old); at += t.words {
		if old[at] != 0 {
			g.put(old[at : at+t.words])
		}
	}
	t.store.recycle(old)
}

// split halves g: rows with the next tag bit set go to a new segment.
func (t *table) split(g *segment) bool {
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
	if !t.store.fits(int64(low+high-8*cap(g.cells)) + segmentBytes) {
		return false
	}
	old := g.cells
	h := &segment{num: t.store.nextNum(), latest: g.latest, prefix: g.prefix<<1 | 1, bits: g.bits + 1, words: g.words}
	g.equip(t.store.cells(low))
	h.equip(t.store.cells(high))
	for at := 0; at < len(old); at += t.words {
		switch row := old[at : at+t.words]; {
		case row[0] == 0:
		case uint64(row[0])&bit != 0:
			h.put(row)
		default:
			g.put(row)
		}
	}
	g.prefix <<= 1
	g.bits++
	t.store.recycle(old)
	t.store.account(segmentBytes)
	t.publish(h)
	t.store.splits.Add(1)
	return true
}

// sizeFor returns the least size, in bytes, that holds used rows and a few
// more.
func (t *table) sizeFor(used int) int {
	ladder := t.ladder()
	for _, bytes := range ladder {
		if capacity(bytes/8/t.words) >= used+used/16+1 {
			return bytes
		}
	}
	return ladder[len(ladder)-1]
}

// publish enters g into the directory of its top.
//
// Requires: g covers what it is to cover, and nobody else can change that.
func (t *table) publish(g *segment) {
	own := g.bits - topBits
	p := &t.tops[g.prefix>>own]
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.directory.Load()
	for d.depth < own {
		d = t.replace(p, d, d.depth+1)
	}
	from := int(g.prefix&(1<<own-1)) << (d.depth - own)
	for i := range 1 << (d.depth - own) {
		d.segments[from+i].Store(g)
	}
}

// replace gives p a directory of another depth. Requires: p is locked.
func (t *table) replace(p *top, d *directory, depth uint8) *directory {
	n := &directory{depth: depth, segments: make([]atomic.Pointer[segment], 1<<depth)}
	for i := range n.segments {
		n.segments[i].Store(d.segments[i<<d.depth>>depth].Load())
	}
	p.directory.Store(n)
	t.store.account(directoryBytes(len(n.segments)) - directoryBytes(len(d.segments)))
	return n
}
