package event

import (
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// maxKey is how many bytes of a key are kept: with them a slot is three cache
// lines, and those of facts. A longer key is told apart from others by its hash.
const maxKey = 112

// sighting is one decision under one limit, or how a request that passed under
// it ended, as the ring keeps it.
type sighting struct {
	now        int64 // µs since the Unix epoch, by the store's clock
	limit      *weir.Limit
	source     *weir.Limit // what it was decided from, often limit itself
	cost       int64
	remaining  int64
	retry      int64 // µs, -1 for never
	delay      int64 // µs; of an answer how long it took
	hash       uint64
	status     int16 // of an answer
	isResponse bool  // it is an answer: only now, limit, hash, outcome, key, status and delay are there
	outcome    weir.Outcome
	decided    bool // the limit's answer was the request's
	cut        bool // the key is longer than what is kept of it
	keyLen     uint8
	keyBytes   [maxKey]byte
	// facts are set where known is; of what was there before, the rest remains.
	// With them a slot is nine cache lines.
	facts facts
}

func (s *sighting) key() []byte { return s.keyBytes[:s.keyLen] }

func (s *sighting) setKey(key string) {
	n := copy(s.keyBytes[:], key)
	s.keyLen, s.cut = uint8(n), n < len(key)
}

// slot is a place in the ring. seq says whose turn it is: the writer's of lap n
// when it is n*size+index, the reader's when it is one more.
type slot struct {
	seq atomic.Uint64
	sighting
}

// ring is a bounded queue of many writers and one reader that neither locks nor
// allocates.
//
// Source: Dmitry Vyukov, "Bounded MPMC queue", 1024cores.net.
type ring struct {
	slots []slot
	mask  uint64
	_     [64]byte // the writers' line is not the reader's
	tail  atomic.Uint64
	_     [64]byte
	head  uint64
}

// newRing returns a ring of the given size, a power of two.
func newRing(size int) *ring {
	r := &ring{slots: make([]slot, size), mask: uint64(size - 1)}
	for i := range r.slots {
		r.slots[i].seq.Store(uint64(i))
	}
	return r
}

// claimSlot returns a slot to be filled and then committed, nil when the ring is
// full.
func (r *ring) claimSlot() (*slot, uint64) {
	for at := r.tail.Load(); ; {
		s := &r.slots[at&r.mask]
		switch seq := s.seq.Load(); {
		case seq == at:
			if r.tail.CompareAndSwap(at, at+1) {
				return s, at
			}
			at = r.tail.Load()
		case seq < at:
			return nil, 0
		default:
			at = r.tail.Load()
		}
	}
}

// isHalfFree reports whether less than half of the ring is taken.
func (r *ring) isHalfFree() bool {
	at := r.tail.Load() + uint64(len(r.slots))/2
	return r.slots[at&r.mask].seq.Load() >= at
}

// commit hands the slot that was claimed at a place to the reader.
func (s *slot) commit(at uint64) { s.seq.Store(at + 1) }

// nextSighting returns the oldest sighting, nil when there is none. It is valid until
// done.
func (r *ring) nextSighting() *sighting {
	s := &r.slots[r.head&r.mask]
	if s.seq.Load() != r.head+1 {
		return nil
	}
	return &s.sighting
}

// freeSlot gives the slot of the last next back to the writers.
func (r *ring) freeSlot() {
	s := &r.slots[r.head&r.mask]
	s.limit, s.source = nil, nil
	s.seq.Store(r.head + uint64(len(r.slots)))
	r.head++
}
