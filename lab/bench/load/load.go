// Package load makes the keys that limiters are measured with. Everything is
// seeded: two runs see the same keys in the same order.
package load

import (
	"math/rand"
	"strconv"
)

// HotKey is the one key of the hot-key shapes: 13 bytes, like the others.
const HotKey = "user:00000042"

// Exponent of the Zipf distribution: close to the classic 1, which the
// generator excludes.
const Exponent = 1.01

// Key returns the i-th key: "user:" and at least eight digits.
func Key(i int) string { return string(AppendKey(make([]byte, 0, 16), i)) }

// AppendKey appends the i-th key to b.
func AppendKey(b []byte, i int) []byte {
	b = append(b, "user:"...)
	for pad := 10_000_000; pad > i && pad > 1; pad /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, int64(i), 10)
}

// Keys is a population of keys and an order in which they come.
type Keys struct {
	All []string
	// order holds indexes into All; its length is a power of two.
	order []uint32
}

// At returns the key of request i. It repeats itself after millions.
func (k *Keys) At(i int) string { return k.All[k.order[i&(len(k.order)-1)]] }

// Zipf returns n keys of which the r-th most popular comes with a frequency
// proportional to 1/r^Exponent, 4 million requests long.
func Zipf(n int) *Keys {
	source := rand.New(rand.NewSource(1))
	// Popular keys must not be neighbours in memory.
	rank := source.Perm(n)
	zipf := rand.NewZipf(source, Exponent, 1, uint64(n-1))
	return newKeys(n, func() int { return rank[zipf.Uint64()] })
}

// Uniform returns n keys that come equally often, 4 million requests long.
func Uniform(n int) *Keys {
	source := rand.New(rand.NewSource(1))
	return newKeys(n, func() int { return source.Intn(n) })
}

func newKeys(n int, draw func() int) *Keys {
	k := &Keys{All: make([]string, n), order: make([]uint32, 1<<22)}
	for i := range k.All {
		k.All[i] = Key(i)
	}
	for i := range k.order {
		k.order[i] = uint32(draw())
	}
	return k
}
