package memory

import (
	"sync"
	"sync/atomic"
)

// The sizes of a segment's cells, in bytes: all are size classes of Go's
// allocator, so that no byte is lost in rounding. The first steps double. The
// last are small, because a table spends most of its life in them.
var (
	// narrow is for rows that hold their cells.
	narrow = [...]int{256, 512, 1024, 2048, 4096, 8192, 16384, 20480, 24576, 28672}
	// wide is for rows that refer to their cells: searching such a segment for
	// expired rows touches a cache line for each.
	wide = [...]int{256, 512, 1024, 2048, 4096, 4864, 6144, 6912}
)

// An arena is the memory of all tables: their segments, cells and slabs. It knows how much
// they have and how much they may have.
type arena struct {
	maxBytes int64
	maxSpare int // cells kept for reuse, of each size
	bytes    atomic.Int64
	num      atomic.Uint64
	spares   [len(narrow)]spare
}

// hasRoomFor reports whether tables may take so many bytes more.
func (a *arena) hasRoomFor(bytes int64) bool { return a.bytes.Load()+bytes <= a.maxBytes }

func (a *arena) account(bytes int64) { a.bytes.Add(bytes) }

// newSegment returns a segment of rows of words words, without cells, for the tags that
// begin with the bits of prefix. Its number is the highest yet.
func (a *arena) newSegment(prefix uint32, bits, words uint8) *segment {
	a.account(segmentBytes)
	return &segment{num: a.num.Add(1), prefix: prefix, bits: bits, words: words}
}

// A spare keeps freed cells of one size: tables trade them, for when one segment
// grows out of a size another grows into it. What is kept counts as used.
type spare struct {
	mu   sync.Mutex
	free [][]int64
}

// takeCells returns zeroed cells of the given size in bytes, and accounts for them.
func (a *arena) takeCells(bytes int) []int64 {
	words := bytes / 8
	a.account(int64(bytes))
	p := a.spareOf(words)
	if p == nil {
		return make([]int64, words)
	}
	p.mu.Lock()
	n := len(p.free)
	if n == 0 {
		p.mu.Unlock()
		return make([]int64, words)
	}
	c := p.free[n-1]
	p.free = p.free[:n-1]
	p.mu.Unlock()
	a.account(-int64(bytes))
	clear(c)
	return c
}

// recycle takes back cells that cells returned.
func (a *arena) recycle(c []int64) {
	c = c[:cap(c)]
	p := a.spareOf(len(c))
	if p != nil {
		p.mu.Lock()
		if len(p.free) < a.maxSpare {
			p.free = append(p.free, c)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
	a.account(-8 * int64(len(c)))
}

// spareOf returns where cells of the given size are kept, nil if they are too
// small to bother.
func (a *arena) spareOf(words int) *spare {
	for i, bytes := range narrow {
		if i > 5 && bytes == 8*words {
			return &a.spares[i]
		}
	}
	return nil
}

// dropSpare gives back one of the spare cells of each size: those that nobody
// needs are gone after a round.
func (a *arena) dropSpare() {
	for i := range a.spares {
		p := &a.spares[i]
		p.mu.Lock()
		if n := len(p.free); n > 0 {
			p.free[n-1] = nil
			p.free = p.free[:n-1]
			a.account(-int64(narrow[i]))
		}
		p.mu.Unlock()
	}
}
