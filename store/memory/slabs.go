package memory

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// slabs keep rows that are too long for a segment, or that grow: a slab for each
// row length. The table keeps a reference in the row's place, so that splitting
// a segment moves references only, and a long row costs 16 bytes more than its
// cells at most of the time.
//
// A row belongs to the segment that refers to it and is guarded by its lock.
type slabs struct {
	arena *arena
	mu    sync.Mutex // guards replacing index
	index atomic.Pointer[slabIndex]
	// zero is a row never seen, for asking how much room one needs. It is never
	// written.
	zero [8]int64
}

type slabIndex struct {
	all     []*slab
	byWords map[int]int
}

// A ref says where a row is: slab, chunk and row within the chunk. Zero is none.
type ref int64

const (
	refRowBits   = 16
	refChunkBits = 32
	maxSlabs     = 1 << 14
)

func makeRef(slab, chunk, row int) ref {
	return ref(slab+1)<<(refChunkBits+refRowBits) | ref(chunk)<<refRowBits | ref(row)
}

func (r ref) slabNumber() int  { return int(r>>(refChunkBits+refRowBits)) - 1 }
func (r ref) chunkNumber() int { return int(r >> refRowBits & (1<<refChunkBits - 1)) }
func (r ref) rowNumber() int   { return int(r & (1<<refRowBits - 1)) }

func newSlabs(a *arena) *slabs {
	sl := &slabs{arena: a}
	sl.index.Store(&slabIndex{byWords: map[int]int{}})
	return sl
}

// cellsOf returns the cells of r.
func (sl *slabs) cellsOf(r ref) []int64 {
	s := sl.index.Load().all[r.slabNumber()]
	c := (*s.chunks.Load())[r.chunkNumber()]
	at := r.rowNumber() * s.words
	return c.cells[at : at+s.words : at+s.words]
}

// allocateRow returns a zeroed row of at least words cells. It reports false when the
// store is full, unless must is set.
func (sl *slabs) allocateRow(words int, must bool) (ref, bool) {
	i, ok := sl.index.Load().byWords[words]
	if !ok {
		if i, ok = sl.addSlab(words); !ok {
			return 0, false
		}
	}
	s := sl.index.Load().all[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, chunks := s.seekChunk(), *s.chunks.Load()
	if s.open == len(chunks) || chunks[s.open].cells == nil {
		bytes := int64(8 * rows * s.words)
		if !must && !sl.arena.hasRoomFor(bytes) {
			return 0, false
		}
		sl.arena.account(bytes)
		if s.open == len(chunks) {
			chunks = append(chunks, &chunk{rows: rows, before: s.totalRows()})
			s.chunks.Store(&chunks)
		}
		chunks[s.open].cells = make([]int64, rows*s.words)
		s.kept += rows
	}
	c := chunks[s.open]
	if s.spare == s.open+1 {
		s.spare = 0
	}
	at := c.free - 1
	if at >= 0 {
		row := c.cells[at*s.words : (at+1)*s.words]
		c.free = int(row[0])
		clear(row)
	} else {
		at = c.fresh
		c.fresh++
	}
	c.used++
	s.used++
	return makeRef(i, s.open, at), true
}

// hasRoomFor reports whether there is memory for the cells of a new key of l.
func (sl *slabs) hasRoomFor(l *weir.Limit) bool {
	words := l.Cells
	if l.Traits()&weir.Grows != 0 {
		words = roundWords(min(len(sl.zero), l.Cells), l)
	}
	rows := rowsPerChunk(words, 0)
	index := sl.index.Load()
	if i, ok := index.byWords[words]; ok {
		s := index.all[i]
		s.mu.Lock()
		free := s.kept - s.used
		if free == 0 {
			rows = s.seekChunk()
		}
		s.mu.Unlock()
		if free > 0 {
			return true
		}
	}
	return sl.arena.hasRoomFor(int64(8 * rows * words))
}

// addSlab makes the slab for rows of the given length.
func (sl *slabs) addSlab(words int) (int, bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	old := sl.index.Load()
	if i, ok := old.byWords[words]; ok {
		return i, true
	}
	i := len(old.all)
	if i == maxSlabs {
		return 0, false
	}
	s := &slab{words: words}
	s.chunks.Store(&[]*chunk{})
	n := &slabIndex{all: append(old.all[:i:i], s), byWords: maps.Clone(old.byWords)}
	n.byWords[words] = i
	sl.index.Store(n)
	return i, true
}

// freeRow takes back a row. A chunk without rows gives its memory back, unless there
// would be no room for the next row.
func (sl *slabs) freeRow(r ref) {
	s := sl.index.Load().all[r.slabNumber()]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := (*s.chunks.Load())[r.chunkNumber()]
	s.used--
	c.used--
	s.open = min(s.open, r.chunkNumber())
	if c.used == 0 {
		if s.words > maxSpareWords || s.spare > 0 || s.kept-c.rows > s.used || int64(8*len(c.cells)) > sl.arena.maxBytes/1024 {
			sl.dropChunk(s, c)
			return
		}
		s.spare, s.idle = r.chunkNumber()+1, false
	}
	c.cells[r.rowNumber()*s.words] = int64(c.free)
	c.free = r.rowNumber() + 1
}

// dropChunk gives back the memory of a chunk without rows. Requires: s is locked.
func (sl *slabs) dropChunk(s *slab, c *chunk) {
	sl.arena.account(-int64(8 * len(c.cells)))
	s.kept -= c.rows
	*c = chunk{rows: c.rows, before: c.before}
	s.trimChunks()
}

// dropSpare gives back the spare chunks that nobody has needed since it was
// called before.
func (sl *slabs) dropSpare() {
	for _, s := range sl.index.Load().all {
		s.mu.Lock()
		switch {
		case s.spare == 0:
		case s.idle:
			sl.dropChunk(s, (*s.chunks.Load())[s.spare-1])
			s.spare = 0
		default:
			s.idle = true
		}
		s.mu.Unlock()
	}
}

// compact moves a row out of a chunk that would be empty if all rows stood in
// the first chunks, and returns where it is now.
func (sl *slabs) compact(r ref) ref {
	s := sl.index.Load().all[r.slabNumber()]
	s.mu.Lock()
	stays := (*s.chunks.Load())[r.chunkNumber()].before < s.used
	s.mu.Unlock()
	if stays {
		return r
	}
	n, ok := sl.allocateRow(s.words, true)
	if !ok || n.chunkNumber() >= r.chunkNumber() {
		if ok {
			sl.freeRow(n)
		}
		return r
	}
	copy(sl.cellsOf(n), sl.cellsOf(r))
	sl.freeRow(r)
	return n
}

// roundWords returns the length of the row to keep for a growing one that needs
// need cells: at most an eighth more, and never more than a full one has.
func roundWords(need int, l *weir.Limit) int {
	step := max(4, 1<<max(bits.Len(uint(need))-4, 0))
	words := (need + step - 1) / step * step
	if need <= l.Full {
		return min(words, l.Full)
	}
	return min(words, l.Cells)
}
