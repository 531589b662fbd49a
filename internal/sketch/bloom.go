package sketch

import (
	"fmt"
	"math"
)

const (
	// MaxBloomBits is the most bits a Bloom filter may have.
	MaxBloomBits = 1 << 33
	// maxBloomHashes is the most positions a Bloom filter may keep for a key.
	maxBloomHashes = 32
)

// A bloom is a Bloom filter: a set of keys of which only bits are kept,
// bits/8 bytes whatever the number of keys.
//
// Theorem. has is true for every key added since the last reset. For a key not
// added it is true with a chance of about (1 - e^(-k*n/m))^k, for m bits, k
// hashes and n keys added.
//
// A bloom is not safe for concurrent use: lock it.
//
// Source: Bloom, "Space/time trade-offs in hash coding with allowable errors",
// 1970.
type bloom struct {
	words  []uint64
	bits   uint64
	hashes int
	ones   int // bits set
}

func makeBloom(size int64, hashes int) bloom {
	words := (size + 63) / 64
	return bloom{words: make([]uint64, words), bits: uint64(words) * 64, hashes: hashes}
}

func checkBloom(size int64, hashes int) error {
	if size < 1 || size > MaxBloomBits {
		return fmt.Errorf("sketch: Bloom filter of %d bits: choose 1 to %d", size, int64(MaxBloomBits))
	}
	if hashes < 1 || hashes > maxBloomHashes {
		return fmt.Errorf("sketch: Bloom filter with %d hashes: choose 1 to %d", hashes, maxBloomHashes)
	}
	return nil
}

// bloomSize returns the number of bits and hashes for which a filter holding
// keys keys takes a share of at most about p of the others for known:
// bits = -keys*ln(p)/ln(2)^2, hashes = bits/keys*ln(2). One in a hundred costs
// 9.6 bits a key and 7 hashes, one in a thousand 14.4 and 10.
//
// Requires: p is between 0 and 1. Too few keys, and a result that is too large, are
// errors.
func bloomSize(keys int64, p float64) (size int64, hashes int, err error) {
	if keys < 1 {
		return 0, 0, fmt.Errorf("sketch: Bloom filter for %d keys: expect at least 1", keys)
	}
	m := math.Ceil(-float64(keys) * math.Log(p) / (math.Ln2 * math.Ln2))
	k := math.Max(1, math.Round(m/float64(keys)*math.Ln2))
	if m > MaxBloomBits || k > maxBloomHashes {
		return 0, 0, fmt.Errorf("sketch: Bloom filter for %d keys with a share of %v false positives needs %.0f bits and %.0f hashes: at most %d and %d are kept, choose a larger share",
			keys, p, m, k, int64(MaxBloomBits), maxBloomHashes)
	}
	return int64(m), int(k), nil
}

// bytes returns the memory of the bits.
func (b *bloom) bytes() int64 { return int64(len(b.words)) * 8 }

// fillShare returns the share of bits set, 0 to 1. A filter at its design size is
// about half full.
func (b *bloom) fillShare() float64 { return float64(b.ones) / float64(b.bits) }

// falsePositives returns the share of keys never added for which has would now
// be true, estimated from the fill: fill to the power of hashes.
func (b *bloom) falsePositives() float64 { return math.Pow(b.fillShare(), float64(b.hashes)) }

// reset forgets every key.
func (b *bloom) reset() {
	if b.ones == 0 {
		return
	}
	clear(b.words)
	b.ones = 0
}

func (b *bloom) contains(p probe) bool {
	for i := range b.hashes {
		at := p.bitIndex(i, b.bits)
		if b.words[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *bloom) insertKey(p probe) bool {
	had := true
	for i := range b.hashes {
		at := p.bitIndex(i, b.bits)
		word, bit := &b.words[at/64], uint64(1)<<(at%64)
		if *word&bit == 0 {
			*word |= bit
			b.ones++
			had = false
		}
	}
	return had
}
