package measure

import (
	"math/bits"
	"time"
)

// subBits is the precision of a Histogram: 2^subBits buckets an octave.
const subBits = 5

// Histogram counts durations in buckets at most 1/32 wide. It does not
// allocate after it was made. Not safe for concurrent use.
type Histogram struct {
	counts [64 << subBits]int64
	total  int64
	// Longest is the longest duration that was added.
	Longest time.Duration
}

// Add counts d, which must not be negative.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(uint64(d))]++
	h.total++
	h.Longest = max(h.Longest, d)
}

// Merge counts what other has counted too.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.Longest = max(h.Longest, other.Longest)
}

// Quantile returns the upper end of the bucket in which the q-th part of all
// durations ends, q from 0 to 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.total))
	var seen int64
	for i, n := range h.counts {
		seen += n
		if seen > rank {
			return min(time.Duration(upper(i)), h.Longest)
		}
	}
	return h.Longest
}

// bucket returns the index of n: below 2^subBits itself, then its exponent
// and its subBits bits below the highest.
func bucket(n uint64) int {
	exp := bits.Len64(n) - 1 - subBits
	if exp < 0 {
		return int(n)
	}
	return (exp+1)<<subBits + int(n>>exp)&(1<<subBits-1)
}

// upper returns the largest number of bucket i.
func upper(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	exp := i>>subBits - 1
	low := uint64(1<<subBits+i&(1<<subBits-1)) << exp
	return low + 1<<exp - 1
}
