package memory

import (
	"slices"
	"sync"
	"sync/atomic"
)

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

// seekChunk moves open to the first chunk that is not full, or behind the last, and
// returns how many rows the chunk there has, or is to have. Requires: s is
// locked.
func (s *slab) seekChunk() int {
	chunks := *s.chunks.Load()
	for s.open < len(chunks) && chunks[s.open].used == chunks[s.open].rows {
		s.open++
	}
	if s.open < len(chunks) {
		return chunks[s.open].rows
	}
	return rowsPerChunk(s.words, s.totalRows())
}

// totalRows returns how many rows all chunks have, those without memory included.
// Requires: s is locked.
func (s *slab) totalRows() int {
	chunks := *s.chunks.Load()
	if len(chunks) == 0 {
		return 0
	}
	last := chunks[len(chunks)-1]
	return last.before + last.rows
}

// trimChunks forgets the chunks at the end that have no memory: rows that grow leave
// long lists of them behind. Requires: s is locked. Who reads a list without the
// lock has a row in it, in a chunk that stays.
func (s *slab) trimChunks() {
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
