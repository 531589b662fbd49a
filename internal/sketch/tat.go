package sketch

import (
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

// NewTAT returns an empty sketch of depth rows (1 to [MaxDepth]) and at least width
// columns (1 to [MaxWidth]), rounded up to a power of two, in 16 shards, or as many as
// there are columns.
func NewTAT(depth, width int) (*TAT, error) {
	if err := checkTable(depth, width); err != nil {
		return nil, err
	}
	width = powerOfTwo(width)
	shards := min(16, width)
	t := &TAT{
		shards: make([]TATShard, shards),
		shift:  uint(64 - bits.TrailingZeros(uint(shards))),
	}
	columns := width / shards
	for i := range t.shards {
		t.shards[i].stamps = make([]int64, depth*columns)
		t.shards[i].mask = uint64(columns - 1)
	}
	return t, nil
}

// Bytes returns the memory of the stamps, which never changes.
func (t *TAT) Bytes() int64 {
	return int64(len(t.shards)) * int64(len(t.shards[0].stamps)) * 8
}

// ShardIndex returns which shard, 0 to Shards-1, holds the key with hash h.
func (t *TAT) ShardIndex(h uint64) int { return int(spread(h) >> t.shift) }

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

// RaiseStamps makes the estimate of the key with hash h at least v, changing only the
// stamps that are earlier. Requires: the shard is locked.
func (s *TATShard) RaiseStamps(h uint64, v int64) {
	p := newProbe(h)
	row := s.stamps
	for i := 0; len(row) > 0; i++ {
		cell := &row[p.column(i, s.mask)]
		*cell = max(*cell, v)
		row = row[s.mask+1:]
	}
}
