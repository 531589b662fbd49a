package sketch

import (
	"fmt"
	"math"
)

const (
	// MaxBloomBits is the most bits a Bloom filter may have.
	MaxBloomBits = 1 << 33
	// MaxBloomHashes is the most positions a Bloom filter may keep for a key.
	MaxBloomHashes = 32
)

// A Bloom is a Bloom filter: a set of keys of which only bits are kept,
// bits/8 bytes whatever the number of keys.
//
// Theorem. Has is true for every key added since the last Reset. For a key not
// added it is true with a chance of about (1 - e^(-k*n/m))^k, for m bits, k
// hashes and n keys added.
//
// A Bloom is not safe for concurrent use: lock it.
//
// Source: Bloom, "Space/time trade-offs in hash coding with allowable errors",
// 1970.
type Bloom struct {
	words  []uint64
	bits   uint64
	hashes int
	ones   int // bits set
}

// NewBloom returns an empty filter of at least size bits (1 to [MaxBloomBits]),
// rounded up to a multiple of 64, that keeps hashes positions (1 to
// [MaxBloomHashes]) for a key. See [BloomSize] for a size that meets a target.
func NewBloom(size int64, hashes int) (*Bloom, error) {
	if err := checkBloom(size, hashes); err != nil {
		return nil, err
	}
	b := makeBloom(size, hashes)
	return &b, nil
}

func makeBloom(size int64, hashes int) Bloom {
	words := (size + 63) / 64
	return Bloom{words: make([]uint64, words), bits: uint64(words) * 64, hashes: hashes}
}

func checkBloom(size int64, hashes int) error {
	if size < 1 || size > MaxBloomBits {
		return fmt.Errorf("sketch: Bloom filter of %d bits: choose 1 to %d", size, int64(MaxBloomBits))
	}
	if hashes < 1 || hashes > MaxBloomHashes {
		return fmt.Errorf("sketch: Bloom filter with %d hashes: choose 1 to %d", hashes, MaxBloomHashes)
	}
	return nil
}

// BloomSize returns the number of bits and hashes for which a filter holding
// keys keys takes a share of at most about p of the others for known:
// bits = -keys*ln(p)/ln(2)^2, hashes = bits/keys*ln(2). One in a hundred costs
// 9.6 bits a key and 7 hashes, one in a thousand 14.4 and 10.
//
// keys is at least 1, p is between 0 and 1. A result too large for [NewBloom] is
// an error.
func BloomSize(keys int64, p float64) (size int64, hashes int, err error) {
	if keys < 1 {
		return 0, 0, fmt.Errorf("sketch: Bloom filter for %d keys: expect at least 1", keys)
	}
	if !(p > 0 && p < 1) {
		return 0, 0, fmt.Errorf("sketch: share of false positives is %v: choose a value between 0 and 1, such as 0.01", p)
	}
	m := math.Ceil(-float64(keys) * math.Log(p) / (math.Ln2 * math.Ln2))
	k := math.Max(1, math.Round(m/float64(keys)*math.Ln2))
	if m > MaxBloomBits || k > MaxBloomHashes {
		return 0, 0, fmt.Errorf("sketch: Bloom filter for %d keys with a share of %v false positives needs %.0f bits and %.0f hashes: at most %d and %d are kept, choose a larger share",
			keys, p, m, k, int64(MaxBloomBits), MaxBloomHashes)
	}
	return int64(m), int(k), nil
}

// Size returns the number of bits.
func (b *Bloom) Size() int64 { return int64(b.bits) }

// Hashes returns the number of positions kept for a key.
func (b *Bloom) Hashes() int { return b.hashes }

// Bytes returns the memory of the bits.
func (b *Bloom) Bytes() int64 { return int64(len(b.words)) * 8 }

// Fill returns the share of bits set, 0 to 1. A filter at its design size is
// about half full.
func (b *Bloom) Fill() float64 { return float64(b.ones) / float64(b.bits) }

// FalsePositives returns the share of keys never added for which Has would now
// be true, estimated from the fill: fill to the power of hashes.
func (b *Bloom) FalsePositives() float64 { return math.Pow(b.Fill(), float64(b.hashes)) }

// Has reports whether the key with hash h may have been added. False is certain.
func (b *Bloom) Has(h uint64) bool { return b.has(newProbe(h)) }

// Add adds the key with hash h and reports whether Has was true before.
func (b *Bloom) Add(h uint64) bool { return b.add(newProbe(h)) }

// Reset forgets every key.
func (b *Bloom) Reset() {
	if b.ones == 0 {
		return
	}
	clear(b.words)
	b.ones = 0
}

func (b *Bloom) has(p probe) bool {
	for i := range b.hashes {
		at := p.bit(i, b.bits)
		if b.words[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *Bloom) add(p probe) bool {
	had := true
	for i := range b.hashes {
		at := p.bit(i, b.bits)
		word, bit := &b.words[at/64], uint64(1)<<(at%64)
		if *word&bit == 0 {
			*word |= bit
			b.ones++
			had = false
		}
	}
	return had
}
