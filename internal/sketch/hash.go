package sketch

import "math/bits"

// golden is 2^64 divided by the golden ratio, the multiplier of Fibonacci hashing.
const golden = 0x9E3779B97F4A7C15

// A probe yields every position of one key by double hashing: the i-th is
// start + i*step modulo 2^64, reduced to the size at hand. step is odd, so that
// in a table of 2^b columns the rows of one key differ even when b is small.
type probe struct{ start, step uint64 }

func newProbe(h uint64) probe { return probe{start: h, step: mixBits(h) | 1} }

// column reduces the i-th value to a table of mask+1 columns, a power of two.
func (p probe) column(i int, mask uint64) uint64 {
	return (p.start + uint64(i)*p.step) & mask
}

// bitIndex reduces the i-th value to 0..n-1 for any n, without a division.
func (p probe) bitIndex(i int, n uint64) uint64 {
	hi, _ := bits.Mul64(p.start+uint64(i)*p.step, n)
	return hi
}

// mixBits is a bijection of 64 bits in which every input bit flips each output bit
// with a chance near one half.
//
// Source: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mixBits(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	x ^= x >> 31
	return x
}

// spread gives the bits that choose a key's shard (the top 10 at most) and
// whether it is sampled (the 32 from bit 20 up). It differs from what positions
// come from, so that the keys of one shard use all of the shard's columns.
func spread(h uint64) uint64 { return h * golden }

// powerOfTwo returns the least power of two that is at least n, for n up to 2^62.
func powerOfTwo(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len64(uint64(n-1))
}
