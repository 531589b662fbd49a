package memory

import (
	"maps"
	"math/bits"
	"slices"
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
	store *Store
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

func (r ref) slab() int  { return int(r>>(refChunkBits+refRowBits)) - 1 }
func (r ref) chunk() int { return int(r >> refRowBits & (1<<refChunkBits - 1)) }
func (r ref) row() int   { return int(r & (1<<refRowBits - 1)) }

// A slab keeps rows of one length in chunks, the later ones larger.
type slab struct {
	words  int
	mu     sync.Mutex // guards all below, and what the chunks say of free rows
	chunks atomic.Pointer[[]*chunk]
	// open: no chunk before it has a free row.
	open int
	// used is how many rows are in use, kept how many there is memory for.
	used, kept int
	// spare is the number of a chunk, plus one, that is kept though no row in it is
	// in use: else a row that comes and goes alone would take and drop a chunk each
	// time. idle: nobody has needed it since the last round.
	spare int
	idle  bool
}

// chunkBytes is about the size of a slab's first chunk, a quarter of the most that
// it may have. Chunks that come later have at most an eighth of what those before
// them have, and maxChunkBytes: making one keeps a decision waiting. Rows a few bytes
// longer than whole pages need more of them in a chunk to fill it: up to manyRows and
// largeChunkBytes, where so many are a 256th of what there is.
const (
	chunkBytes      = 64 << 10
	maxChunkBytes   = 1 << 20
	largeChunkBytes = 16 << 20
	manyRows        = 512
)

// maxSpareWords is the longest row for whose sake a chunk is kept: a longer one
// has grown, and rows that grow leave chunks of many lengths behind.
const maxSpareWords = 16

// pageBytes is what the runtime rounds large allocations up to, and pageLoss how
// much of that, in bytes, a row may cost.
const (
	pageBytes = 8 << 10
	pageLoss  = 4
)

// rowsPerChunk returns how many rows of the given length make a chunk when so
// many stand in the chunks before it: the least number that fills its pages but
// for pageLoss a row, or the one that comes nearest to that. While there are few,
// rows a few bytes longer than whole pages come no nearer than a hundredth of their
// size.
func rowsPerChunk(words, before int) int {
	least := min(max(chunkBytes/8/words, 1), 1<<refRowBits)
	most := max(4*least, min(before/8, maxChunkBytes/8/words), min(before/256, manyRows, largeChunkBytes/8/words))
	best, bestLoss := least, float64(pageBytes)
	for n := least; n <= min(most, 1<<refRowBits); n++ {
		rest := -8 * n * words & (pageBytes - 1)
		if loss := float64(rest) / float64(n); loss < bestLoss {
			best, bestLoss = n, loss
		}
		if bestLoss <= pageLoss {
			break
		}
	}
	return best
}

// A chunk keeps its size and its place when it gives its memory back.
type chunk struct {
	cells []int64 // nil while no row is in use
	// rows is how many it has, before how many all chunks before it have.
	rows, before int
	// free is the first of the rows given back, plus one; each holds the next in
	// its first cell. Rows from fresh on were never used.
	free, fresh int
	used        int
}

func newSlabs(s *Store) *slabs {
	sl := &slabs{store: s}
	sl.index.Store(&slabIndex{byWords: map[int]int{}})
	return sl
}

// row returns the cells of r.
func (sl *slabs) row(r ref) []int64 {
	s := sl.index.Load().all[r.slab()]
	c := (*s.chunks.Load())[r.chunk()]
	at := r.row() * s.words
	return c.cells[at : at+s.words : at+s.words]
}

// alloc returns a zeroed row of at least words cells. It reports false when the
// store is full, unless must is set.
func (sl *slabs) alloc(words int, must bool) (ref, bool) {
	i, ok := sl.index.Load().byWords[words]
	if !ok {
		if i, ok = sl.add(words); !ok {
			return 0, false
		}
	}
	s := sl.index.Load().all[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, chunks := s.seek(), *s.chunks.Load()
	if s.open == len(chunks) || chunks[s.open].cells == nil {
		bytes := int64(8 * rows * s.words)
		if !must && !sl.store.fits(bytes) {
			return 0, false
		}
		sl.store.account(bytes)
		if s.open == len(chunks) {
			chunks = append(chunks, &chunk{rows: rows, before: s.room()})
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

// seek moves open to the first chunk that is not full, or behind the last, and
// returns how many rows the chunk there has, or is to have. Requires: s is
// locked.
func (s *slab) seek() int {
	chunks := *s.chunks.Load()
	for s.open < len(chunks) && chunks[s.open].used == chunks[s.open].rows {
		s.open++
	}
	if s.open < len(chunks) {
		return chunks[s.open].rows
	}
	return rowsPerChunk(s.words, s.room())
}

// room returns how many rows all chunks have, those without memory included.
// Requires: s is locked.
func (s *slab) room() int {
	chunks := *s.chunks.Load()
	if len(chunks) == 0 {
		return 0
	}
	last := chunks[len(chunks)-1]
	return last.before + last.rows
}

// holds reports whether there is memory for the cells of a new key of l.
func (t *table) holds(l *weir.Limit) bool {
	if t.slabs == nil {
		return true
	}
	words := l.Cells
	if l.Traits()&weir.Grows != 0 {
		words = roundWords(min(len(t.slabs.zero), l.Cells), l)
	}
	rows := rowsPerChunk(words, 0)
	index := t.slabs.index.Load()
	if i, ok := index.byWords[words]; ok {
		s := index.all[i]
		s.mu.Lock()
		free := s.kept - s.used
		if free == 0 {
			rows = s.seek()
		}
		s.mu.Unlock()
		if free > 0 {
			return true
		}
	}
	return t.store.fits(int64(8 * rows * words))
}

// add makes the slab for rows of the given length.
func (sl *slabs) add(words int) (int, bool) {
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

// free takes back a row. A chunk without rows gives its memory back, unless there
// would be no room for the next row.
func (sl *slabs) free(r ref) {
	s := sl.index.Load().all[r.slab()]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := (*s.chunks.Load())[r.chunk()]
	s.used--
	c.used--
	s.open = min(s.open, r.chunk())
	if c.used == 0 {
		if s.words > maxSpareWords || s.spare > 0 || s.kept-c.rows > s.used || int64(8*len(c.cells)) > sl.store.maxBytes/1024 {
			sl.drop(s, c)
			return
		}
		s.spare, s.idle = r.chunk()+1, false
	}
	c.cells[r.row()*s.words] = int64(c.free)
	c.free = r.row() + 1
}

// drop gives back the memory of a chunk without rows. Requires: s is locked.
func (sl *slabs) drop(s *slab, c *chunk) {
	sl.store.account(-int64(8 * len(c.cells)))
	s.kept -= c.rows
	*c = chunk{rows: c.rows, before: c.before}
	s.trim()
}

// trim forgets the chunks at the end that have no memory: rows that grow leave
// long lists of them behind. Requires: s is locked. Who reads a list without the
// lock has a row in it, in a chunk that stays.
func (s *slab) trim() {
	chunks := *s.chunks.Load()
	n := len(chunks)
	for n > 0 && chunks[n-1].cells == nil {
		n--
	}
	if n == len(chunks) {
		return
	}
	chunks = chunks[:n]
	if cap(chunks) > 4*n+16 {
		chunks = slices.Clone(chunks)
	}
	s.chunks.Store(&chunks)
	s.open = min(s.open, n)
}

// dropSpare gives back the spare chunks that nobody has needed since it was
// called before.
func (sl *slabs) dropSpare() {
	for _, s := range sl.index.Load().all {
		s.mu.Lock()
		switch {
		case s.spare == 0:
		case s.idle:
			sl.drop(s, (*s.chunks.Load())[s.spare-1])
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
	s := sl.index.Load().all[r.slab()]
	s.mu.Lock()
	stays := (*s.chunks.Load())[r.chunk()].before < s.used
	s.mu.Unlock()
	if stays {
		return r
	}
	n, ok := sl.alloc(s.words, true)
	if !ok || n.chunk() >= r.chunk() {
		if ok {
			sl.free(n)
		}
		return r
	}
	copy(sl.row(n), sl.row(r))
	sl.free(r)
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
