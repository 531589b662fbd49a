package sketch

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// A TAT keeps the theoretical arrival times of any number of keys in depth rows
// of width stamps: 8*depth*width bytes. It takes over from an exact table of
// GCRA state when that is full.
//
// A stamp is any int64 that grows with time and whose zero means "never seen":
// microseconds since the Unix epoch, or these shifted left with a fraction
// below. The sketch only compares stamps.
//
// Theorem. Estimate is at least every stamp raised for the key. It is later than
// the latest of them only if in each row another key with a later stamp shares
// the cell: with n such keys a chance of about (1 - e^(-n/width))^depth over the
// seed of the hash. A limiter that decides on the estimate therefore never admits
// more than one that knows the key's own time, and may refuse more.
//
// A stamp that lies in the past says the same as none, so nothing has to be
// removed and cells heal by themselves. Keep one TAT for each period: a limit
// with a long period leaves stamps far ahead, which would lock out keys of
// limits with a short one.
//
// A TAT is safe for concurrent use. A decision reads a key's stamp, decides and
// raises it, and must hold the lock of the key's shard all the while:
//
//	s := t.Shard(t.Index(h))
//	s.Lock()
//	stamp := s.Estimate(h)
//	// decide
//	s.Raise(h, stamp)
//	s.Unlock()
//
// Source: ITU-T I.371 for the generic cell rate algorithm in its virtual
// scheduling form; the rows and the minimum over them are those of [CountMin]
// with the maximum in place of the sum, for which conservative update is exact.
type TAT struct {
	shards []TATShard
	shift  uint // 64 less the bits that choose a shard
}

// TATOptions sizes a [TAT].
type TATOptions struct {
	// Depth is the number of rows, 1 to [MaxDepth]. Zero means 4.
	Depth int
	// Width is the number of columns over all shards, 1 to [MaxWidth], rounded
	// up to a power of two. Zero means 262144, which with 4 rows is 8 MiB.
	Width int
	// Shards is the number of locks, a power of two up to 1024 and Width. Zero
	// means 16, or Width if that is smaller.
	Shards int
}

// NewTAT returns an empty sketch.
func NewTAT(o TATOptions) (*TAT, error) {
	o.Depth, o.Width = cmp.Or(o.Depth, 4), cmp.Or(o.Width, 1<<18)
	if err := checkTable(o.Depth, o.Width); err != nil {
		return nil, err
	}
	o.Width = powerOfTwo(o.Width)
	o.Shards = cmp.Or(o.Shards, min(16, o.Width))
	if o.Shards < 1 || o.Shards > 1024 || bits.OnesCount(uint(o.Shards)) != 1 || o.Shards > o.Width {
		return nil, fmt.Errorf("sketch: arrival times in %d shards of %d columns: choose a power of two up to 1024 and at least one column for each", o.Shards, o.Width)
	}
	t := &TAT{
		shards: make([]TATShard, o.Shards),
		shift:  uint(64 - bits.TrailingZeros(uint(o.Shards))),
	}
	width := o.Width / o.Shards
	for i := range t.shards {
		t.shards[i].stamps = make([]int64, o.Depth*width)
		t.shards[i].mask = uint64(width - 1)
	}
	return t, nil
}

// Bytes returns the memory of the stamps, which never changes.
func (t *TAT) Bytes() int64 {
	return int64(len(t.shards)) * int64(len(t.shards[0].stamps)) * 8
}

// Index returns which shard, 0 to Shards-1, holds the key with hash h.
func (t *TAT) Index(h uint64) int { return int(spread(h) >> t.shift) }

// Shard returns the i-th shard.
func (t *TAT) Shard(i int) *TATShard { return &t.shards[i] }

// A TATShard holds the stamps of the keys of a [TAT] that share one lock. To lock
// several shards, lock them in one fixed order and each only once.
type TATShard struct {
	mu     sync.Mutex
	stamps []int64 // row after row
	mask   uint64  // columns in a row, less 1
	_      [64]byte
}

// Lock locks the shard.
func (s *TATShard) Lock() { s.mu.Lock() }

// Unlock unlocks the shard.
func (s *TATShard) Unlock() { s.mu.Unlock() }

// Estimate returns the stamp of the key with hash h: never earlier than the
// latest raised for it, 0 for a key never seen. Requires: the shard is locked.
func (s *TATShard) Estimate(h uint64) int64 {
	p := newProbe(h)
	row := s.stamps
	least := int64(math.MaxInt64)
	for i := 0; len(row) > 0; i++ {
		least = min(least, row[p.column(i, s.mask)])
		row = row[s.mask+1:]
	}
	return least
}

// Raise makes the estimate of the key with hash h at least v, changing only the
// stamps that are earlier. Requires: the shard is locked.
func (s *TATShard) Raise(h uint64, v int64) {
	p := newProbe(h)
	row := s.stamps
	for i := 0; len(row) > 0; i++ {
		cell := &row[p.column(i, s.mask)]
		*cell = max(*cell, v)
		row = row[s.mask+1:]
	}
}
