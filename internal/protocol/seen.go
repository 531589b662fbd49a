package protocol

import "slices"

// A table is a set of hashes, none zero, each with the slot of its parent. It does not
// grow: no slot moves.
type table struct {
	hashes  []uint64 // a power of two of them; zero is empty
	parents []uint32
	count   int
}

// addHash returns the slot of a hash, and whether it is new.
func (t *table) addHash(hash uint64, parent uint32) (slot uint32, fresh bool) {
	hash = max(hash, 1)
	mask := uint64(len(t.hashes) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch t.hashes[i] {
		case 0:
			t.hashes[i], t.parents[i] = hash, parent
			t.count++
			return uint32(i), true
		case hash:
			return uint32(i), false
		}
	}
}

// A queue is first in, first out, in chunks: what was taken is free memory.
type queue[E any] struct {
	chunks [][]E
	taken  int // of the first chunk
	count  int
	most   int // that count has been
}

const chunk = 1 << 14

func (q *queue[E]) enqueue(v E) {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == chunk {
		q.chunks = append(q.chunks, make([]E, 0, chunk))
		last++
	}
	q.chunks[last] = append(q.chunks[last], v)
	q.count++
	q.most = max(q.most, q.count)
}

func (q *queue[E]) dequeue() E {
	v := q.chunks[0][q.taken]
	q.taken++
	q.count--
	if q.taken == chunk || q.count == 0 {
		q.chunks = slices.Delete(q.chunks, 0, 1)
		q.taken = 0
	}
	return v
}

// sortByKey sorts a few elements by a number that holds all of each.
func sortByKey[E any](list []E, key func(E) uint64) {
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && key(list[j]) < key(list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// packNumbers makes one number of a few small ones, the first one highest.
func packNumbers(list ...int8) (n uint64) {
	for _, v := range list {
		n = n<<8 | uint64(uint8(v)^0x80)
	}
	return n
}

// addIfRoom adds v to a set of limited size, and reports whether there was room. The zero
// value is an empty element.
func addIfRoom[E comparable](set []E, v E) bool {
	var none E
	i := slices.Index(set, none)
	if i < 0 {
		return false
	}
	set[i] = v
	return true
}

// bit is 1 if it is set.
func bit(set bool) int8 {
	if set {
		return 1
	}
	return 0
}
