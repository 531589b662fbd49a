package sketch

import "math"

// A sample keeps exact counts of a few keys, chosen by their hash alone, against
// which the estimates of one shard are measured.
//
// A key is tracked while its sampling bits are below the threshold. Where more
// keys qualify than there is room for, the threshold is halved until some leave;
// when three quarters of the room are free at the start of a generation it is
// doubled again, up to where it began. Keys that qualify by a doubling have
// older units that were not tracked, so generations before it are not compared.
//
// Invariant: for every key below the threshold and every generation from exact
// on, the count is the units added for that key in that generation.
type sample struct {
	below  uint64 // threshold on 32 bits; 0: no key is sampled
	most   uint64 // the largest threshold
	exact  int64  // first generation whose counts are complete
	slots  int    // generations in the ring
	keys   int
	hashes []uint64
	counts []int64 // slots counts a key, key after key
}

// makeSample samples one key in every keys, at most room keys at a time.
func makeSample(every int64, room, slots int) sample {
	below := uint64(1<<32) / uint64(every)
	return sample{
		below: below, most: below, exact: math.MinInt64, slots: slots,
		hashes: make([]uint64, room), counts: make([]int64, room*slots),
	}
}

func (s *sample) bytes() int64 { return int64(len(s.hashes)+len(s.counts)) * 8 }

// sampledShare returns the share of keys sampled at present.
func (s *sample) sampledShare() float64 { return float64(s.below) / (1 << 32) }

// tracks reports whether the key qualifies. On nearly every call it is all that
// the sample costs: one multiplication and one comparison.
func (s *sample) tracks(h uint64) bool { return sampling(h) < s.below }

func sampling(h uint64) uint64 { return uint64(uint32(spread(h) >> 20)) }

// countsOf returns the counts of the i-th key, by slot.
func (s *sample) countsOf(i int) []int64 { return s.counts[i*s.slots : (i+1)*s.slots] }

func (s *sample) addUnits(h uint64, slot int, n int64) {
	if !s.tracks(h) {
		return
	}
	if count := s.countOfKey(h, slot); count != nil {
		*count = addSaturated(*count, n)
	}
}

// countOfKey finds or makes the count of a tracked key, nil if the threshold had to
// fall below the key.
func (s *sample) countOfKey(h uint64, slot int) *int64 {
	for i, known := range s.hashes[:s.keys] {
		if known == h {
			return &s.countsOf(i)[slot]
		}
	}
	for s.keys == len(s.hashes) && s.below > 0 {
		s.below /= 2
		s.keepKeys(func(i int) bool { return s.tracks(s.hashes[i]) })
	}
	if !s.tracks(h) {
		return nil
	}
	s.hashes[s.keys] = h
	s.keys++
	counts := s.countsOf(s.keys - 1)
	clear(counts)
	return &counts[slot]
}

// forgetSlot drops the counts of a slot that is about to be used again.
func (s *sample) forgetSlot(slot int) {
	for i := range s.keys {
		s.countsOf(i)[slot] = 0
	}
}

// freeEmptyKeys frees keys without a unit left and doubles the threshold if there is
// room. Generation g has just begun and is empty.
func (s *sample) freeEmptyKeys(g int64) {
	s.keepKeys(func(i int) bool {
		for _, n := range s.countsOf(i) {
			if n != 0 {
				return true
			}
		}
		return false
	})
	if s.below < s.most && s.keys <= len(s.hashes)/4 {
		s.below = min(max(s.below*2, 1), s.most)
		s.exact = g
	}
}

// keepKeys moves the keys that stay to the front.
func (s *sample) keepKeys(stays func(i int) bool) {
	n := 0
	for i := range s.keys {
		if !stays(i) {
			continue
		}
		if i != n {
			s.hashes[n] = s.hashes[i]
			copy(s.countsOf(n), s.countsOf(i))
		}
		n++
	}
	s.keys = n
}
