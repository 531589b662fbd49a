package memory

import (
	"hash/maphash"

	"github.com/weirlimit/weir"
)

// maxDirect is the most cells of a row that a table keeps in place.
const maxDirect = 4

// tables are where the rows of all keys are.
type tables struct {
	seed maphash.Seed
	// bySize[n] is for rows of n cells, the last for longer ones.
	bySize [maxDirect + 2]*table
	arena  arena
}

func (t *tables) init(maxBytes int64, k *sketches) {
	t.seed = maphash.MakeSeed()
	t.arena.maxBytes, t.arena.maxSpare = maxBytes, int(min(maxBytes/64/(128<<10), 8))
	for cells := 1; cells <= maxDirect; cells++ {
		t.bySize[cells] = newTable(&t.arena, k, cells+1, nil)
	}
	t.bySize[maxDirect+1] = newTable(&t.arena, k, 2, newSlabs(&t.arena))
}

// tableFor returns the table for the keys of l, nil if l was not compiled.
func (t *tables) tableFor(l *weir.Limit) *table {
	if l.Cells > maxDirect || l.Traits()&weir.Grows != 0 {
		return t.bySize[maxDirect+1]
	}
	return t.bySize[l.Cells]
}

// tagOfKey returns what stands for key under l. It is never zero. For one limit, two
// keys share a tag only if their hashes are equal.
func (t *tables) tagOfKey(key string, l *weir.Limit) uint64 {
	return tagOfHash(maphash.String(t.seed, key), l)
}

// tagOfHash is tag of a key with the hash.
func tagOfHash(hash uint64, l *weir.Limit) uint64 {
	return max(hash^l.RowID(), 1)
}
