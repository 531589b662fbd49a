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
// Every key with more than M/c units has a counter. Both hold after Merge, M
// then being the sum of both streams.
//
// An update costs O(log c) and no allocation once all counters are taken, apart
// from what the map of keys needs to reorganise itself. Bytes: about 64*c, and
// what the keys point to (cap their length before you add them).
//
// A SpaceSaving is not safe for concurrent use: lock it, or keep one for each
// writer and merge them.
//
// Source: Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and
// top-k elements in data streams", 2005; Agarwal et al., "Mergeable summaries",
// 2012, and Cafaro, Pulimeno and Tempesta, "A parallel space saving algorithm for
// frequent items", 2016, for Merge.
type SpaceSaving[K ID] struct {
	heap  []Counter[K] // binary heap, the least count first
	place map[K]int    // key -> its index in heap
	room  int
	total int64
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
		place: make(map[K]int, counters),
		room:  counters,
	}, nil
}

// Add adds n units to a key; n below 1 adds nothing.
//
// A key without a counter takes over the least one and its count, for nobody
// knows that it was not seen before: it may have had that many units, no more.
func (s *SpaceSaving[K]) Add(key K, n int64) {
	if n < 1 {
		return
	}
	s.total = satAdd(s.total, n)
	if i, ok := s.place[key]; ok {
		s.heap[i].Count = satAdd(s.heap[i].Count, n)
		s.down(i)
		return
	}
	if len(s.heap) < s.room {
		s.heap = append(s.heap, Counter[K]{Key: key, Count: n})
		s.place[key] = len(s.heap) - 1
		s.up(len(s.heap) - 1)
		return
	}
	least := s.heap[0].Count
	delete(s.place, s.heap[0].Key)
	s.heap[0] = Counter[K]{Key: key, Count: satAdd(least, n), Error: least}
	s.place[key] = 0
	s.down(0)
}

// Estimate returns the counter of a key. For a key without one, Count and Error
// are the most units that it can have had.
func (s *SpaceSaving[K]) Estimate(key K) Counter[K] {
	if i, ok := s.place[key]; ok {
		return s.heap[i]
	}
	return Counter[K]{Key: key, Count: s.least(), Error: s.least()}
}

// Total returns M, the units added, stopping at math.MaxInt64.
func (s *SpaceSaving[K]) Total() int64 { return s.total }

// Len returns the number of keys that have a counter.
func (s *SpaceSaving[K]) Len() int { return len(s.heap) }

// Top returns the k counters with the largest counts, the largest first, equal
// ones in the order of their keys.
func (s *SpaceSaving[K]) Top(k int) []Counter[K] {
	all := slices.Clone(s.heap)
	slices.SortFunc(all, heavier[K])
	return all[:min(max(k, 0), len(all))]
}

func heavier[K ID](a, b Counter[K]) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
}

// Merge adds what another summary of the same number of counters knows, and
// leaves the other as it is.
//
// A key that only one of them knows may have had the other's least count there.
// Of the keys of both, those with the largest sums keep a counter: a key that
// loses its counter, or had none, is at most the least that is kept.
func (s *SpaceSaving[K]) Merge(other *SpaceSaving[K]) error {
	if s.room != other.room {
		return fmt.Errorf("sketch: merge of a summary of %d counters into one of %d: make both of one size", other.room, s.room)
	}
	all := make([]Counter[K], 0, len(s.heap)+len(other.heap))
	for _, c := range s.heap {
		o := other.Estimate(c.Key)
		all = append(all, Counter[K]{c.Key, satAdd(c.Count, o.Count), satAdd(c.Error, o.Error)})
	}
	for _, c := range other.heap {
		if _, ok := s.place[c.Key]; !ok {
			all = append(all, Counter[K]{c.Key, satAdd(c.Count, s.least()), satAdd(c.Error, s.least())})
		}
	}
	slices.SortFunc(all, heavier[K])
	all = all[:min(len(all), s.room)]
	slices.Reverse(all) // in ascending order a slice is a heap
	s.heap = append(s.heap[:0], all...)
	clear(s.place)
	for i, c := range s.heap {
		s.place[c.Key] = i
	}
	s.total = satAdd(s.total, other.total)
	return nil
}

// Reset forgets every key.
func (s *SpaceSaving[K]) Reset() {
	clear(s.heap) // lets go of what the keys point to
	s.heap = s.heap[:0]
	clear(s.place)
	s.total = 0
}

// least returns the most units that a key without a counter can have had.
func (s *SpaceSaving[K]) least() int64 {
	if len(s.heap) < s.room {
		return 0
	}
	return s.heap[0].Count
}

func (s *SpaceSaving[K]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.heap[parent].Count <= s.heap[i].Count {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *SpaceSaving[K]) down(i int) {
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
		s.swap(i, child)
		i = child
	}
}

func (s *SpaceSaving[K]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.place[s.heap[i].Key], s.place[s.heap[j].Key] = i, j
}
