package event

import "math/bits"

// hasher is a keyed hash for choosing keys: which are sampled, which are
// watched. Whoever does not know the seed cannot tell which keys are chosen.
// Every node with the same secret chooses the same.
//
// It folds products of 64 by 64 bits, as the wyhash family does: a key of a few
// words costs two nanoseconds, and a key is hashed for every decision.
type hasher struct{ a, b uint64 }

const fold = 0x9e3779b97f4a7c15

func (h hasher) hashText(s string) uint64 {
	acc := h.a ^ uint64(len(s))*fold
	for len(s) > 16 {
		acc = mix(loadWord(s)^h.b, loadWord(s[8:])^acc)
		s = s[16:]
	}
	// The ends of what is left overlap where it is not twice as long.
	var x, y uint64
	switch n := len(s); {
	case n >= 8:
		x, y = loadWord(s), loadWord(s[n-8:])
	case n >= 4:
		x, y = loadHalf(s), loadHalf(s[n-4:])
	case n > 0:
		x = uint64(s[0])<<16 | uint64(s[n/2])<<8 | uint64(s[n-1])
	}
	return mix(mix(x^h.b, y^acc), h.a|1)
}

func loadWord(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func loadHalf(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func mix(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}
