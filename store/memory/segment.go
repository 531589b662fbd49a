package memory

import (
	"sync"

	"github.com/weirlimit/weir"
)

// A segment is a piece of a table: rows of words words, each a tag and what the
// table keeps for it, found by linear probing. A row with the tag zero is empty.
//
// Invariant: between a tag's home and its row no row is empty, and at least one
// row of every segment is. Cells of empty rows are zero.
//
// It is 64 bytes: with the lock on the cache line of what it guards, a decision
// fetches two lines, this and the row's.
type segment struct {
	mu    sync.Mutex
	cells []int64
	// num orders segments: whoever locks several locks the smaller num first.
	num uint64
	// latest is the latest time at which something was decided here.
	latest int64
	// sweepAt is the time, in milliseconds and without what exceeds 32 bits, before
	// which looking for expired rows is not worth while.
	sweepAt uint32
	// prefix is the upper bits of the tags that are kept here. A segment that
	// was merged into another has the prefix gone.
	prefix uint32
	rows   uint16
	used   uint16
	bits   uint8
	words  uint8
}

const gone = ^uint32(0)

// coversTag reports whether tag belongs to g.
func (g *segment) coversTag(tag uint64) bool {
	return uint32(tag>>32)>>(32-g.bits) == g.prefix
}

// needsNoSweep reports whether looking for expired rows is not worth while at now.
func (g *segment) needsNoSweep(now int64) bool {
	wait := int32(g.sweepAt - wrappedMillis(now))
	// A clock that went back far must not put the search off for as long.
	return 0 < wait && wait <= sweepRest/1000
}

// wrappedMillis returns milliseconds of microseconds, without what exceeds 32 bits.
func wrappedMillis(micros int64) uint32 { return uint32(micros / 1000) }

// equipCells gives g empty cells.
func (g *segment) equipCells(cells []int64) {
	rows := len(cells) / int(g.words)
	g.rows, g.used = uint16(rows), 0
	g.cells = cells[:rows*int(g.words)]
}

// maxRows is how many rows may be in use: six in seven, and never all.
func (g *segment) maxRows() int { return capacity(int(g.rows)) }

func capacity(rows int) int { return rows - rows/7 - 1 }

// homeRow returns where the row of tag would be if it had no neighbours. Tags
// choose the segment by their upper bits, and the row by the lower ones.
func (g *segment) homeRow(tag uint64) int {
	return int(uint64(uint32(tag))*uint64(g.rows)>>32) * int(g.words)
}

func (g *segment) nextRow(at int) int {
	at += int(g.words)
	if at == len(g.cells) {
		at = 0
	}
	return at
}

// findRow returns where the row of tag is, or the empty row that ends the search.
func (g *segment) findRow(tag uint64) (at int, found bool) {
	at = g.homeRow(tag)
	for {
		switch uint64(g.cells[at]) {
		case tag:
			return at, true
		case 0:
			return at, false
		}
		at = g.nextRow(at)
	}
}

// cellsAt returns the cells behind the tag at at.
func (g *segment) cellsAt(at int) []int64 {
	return g.cells[at+1 : at+int(g.words) : at+int(g.words)]
}

// decisionTime returns the time for a decision in g, which is locked.
//
// It is told under the lock: else a spend that was told it earlier could come later,
// find a key that is full only until now, and refuse a unit too many.
func (g *segment) decisionTime(c *clock) int64 {
	g.latest = c.now(g.latest)
	return g.latest
}

// insertRow copies a row into cells that hold no row of its tag and have room.
func (g *segment) insertRow(row []int64) {
	at, _ := g.findRow(uint64(row[0]))
	copy(g.cells[at:at+int(g.words)], row)
	g.used++
}

// insertRows puts the rows in cells, of another segment or of g before it was equipped.
func (g *segment) insertRows(cells []int64) {
	for at := 0; at < len(cells); at += int(g.words) {
		if cells[at] != 0 {
			g.insertRow(cells[at : at+int(g.words)])
		}
	}
}

// removeRow empties the row at at and moves those behind it up, so that no search
// ends too early.
func (g *segment) removeRow(at int) {
	words, size := int(g.words), len(g.cells)
	distance := func(from, to int) int {
		if to < from {
			to += size
		}
		return to - from
	}
	for p := g.nextRow(at); g.cells[p] != 0; p = g.nextRow(p) {
		// A row may move up to the hole only if that is not before its home.
		if distance(g.homeRow(uint64(g.cells[p])), p) >= distance(at, p) {
			copy(g.cells[at:at+words], g.cells[p:p+words])
			at = p
		}
	}
	clear(g.cells[at : at+words])
	g.used--
}

// expiryEdge returns the stamp up to which rows are expired at now.
func expiryEdge(now int64) int64 { return now << weir.FractionBits }
