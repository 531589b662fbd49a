package sketch

import (
	"cmp"
	"fmt"
	"slices"
)

// A SpaceSaving finds the heaviest keys of a stream with a fixed number c of
// counters, one for each of at most c keys.
//
// Theorem. Let M be the sum of all units added. Every count is at least the units
// added for its key and exceeds them by at most its Error, which is at most M/c.
// Every key with more than M/c units has a counter.
//
// An update costs O(log c) and no allocation once all counters are taken, apart
// from what the map of keys needs to reorganise itself. Bytes: about 64*c, and
// what the keys point to (cap their length before you add them).
//
// A SpaceSaving is not safe for concurrent use: lock it, or keep one for each
// writer.
//
// Source: Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and
// top-k elements in data streams", 2005.
type SpaceSaving[K ID] struct {
	heap  []Counter[K] // binary heap, the least count first
	index map[K]int    // key -> its index in heap
	room  int
}

// An ID names a key of a [SpaceSaving].
type ID interface{ ~uint64 | ~string }

// A Counter is what a [SpaceSaving] knows of one key.
type Counter[K ID] struct {
	Key   K
	Count int64 // never below the key's units
	Error int64 // the units lie between Count-Error and Count
}

// MaxCounters is the most counters a SpaceSaving may have.
const MaxCounters = 1 << 20

// NewSpaceSaving returns an empty summary of 1 to [MaxCounters] counters.
func NewSpaceSaving[K ID](counters int) (*SpaceSaving[K], error) {
	if counters < 1 || counters > MaxCounters {
		return nil, fmt.Errorf("sketch: summary of %d counters: choose 1 to %d", counters, MaxCounters)
	}
	return &SpaceSaving[K]{
		heap:  make([]Counter[K], 0, counters),
		index: make(map[K]int, counters),
		room:  counters,
	}, nil
}

// AddUnits adds n units to a key; n below 1 adds nothing.
//
// A key without a counter takes over the least one and its count, for nobody
// knows that it was not seen before: it may have had that many units, no more.
func (s *SpaceSaving[K]) AddUnits(key K, n int64) {
	if n < 1 {
		return
	}
	if i, ok := s.index[key]; ok {
		s.heap[i].Count = addSaturated(s.heap[i].Count, n)
		s.bubbleDown(i)
		return
	}
	if len(s.heap) < s.room {
		s.heap = append(s.heap, Counter[K]{Key: key, Count: n})
		s.index[key] = len(s.heap) - 1
		s.bubbleUp(len(s.heap) - 1)
		return
	}
	least := s.heap[0].Count
	delete(s.index, s.heap[0].Key)
	s.heap[0] = Counter[K]{Key: key, Count: addSaturated(least, n), Error: least}
	s.index[key] = 0
	s.bubbleDown(0)
}

// TopCounters returns the k counters with the largest counts, the largest first, equal
// ones in the order of their keys.
func (s *SpaceSaving[K]) TopCounters(k int) []Counter[K] {
	all := slices.Clone(s.heap)
	slices.SortFunc(all, heavier[K])
	return all[:min(max(k, 0), len(all))]
}

func heavier[K ID](a, b Counter[K]) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
}

func (s *SpaceSaving[K]) bubbleUp(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.heap[parent].Count <= s.heap[i].Count {
			return
		}
		s.swapCounters(i, parent)
		i = parent
	}
}

func (s *SpaceSaving[K]) bubbleDown(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if child+1 < len(s.heap) && s.heap[child+1].Count < s.heap[child].Count {
			child++
		}
		if s.heap[i].Count <= s.heap[child].Count {
			return
		}
		s.swapCounters(i, child)
		i = child
	}
}

func (s *SpaceSaving[K]) swapCounters(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.index[s.heap[i].Key], s.index[s.heap[j].Key] = i, j
}
