package analytics

import (
	"encoding/binary"
	"fmt"

	"github.com/axiomhq/hyperloglog"
)

// Kinds of sketches.
const (
	sketchLimited = "limited" // keys that were limited
	sketchSampled = "sampled" // keys of the sample
)

// sketchPrecision is 2^11 registers: a standard error of 1.04/sqrt(2048) = 2.3 %.
const sketchPrecision = 11

// sketch counts different keys.
type sketch struct {
	hll *hyperloglog.Sketch
	// every is how many keys there are for each one that can be in it.
	every int64
}

func newSketch() *sketch {
	hll, err := hyperloglog.NewSketch(sketchPrecision, true)
	if err != nil {
		panic("analytics: the precision of sketches is not one")
	}
	return &sketch{hll: hll}
}

// add notes a key.
func (s *sketch) add(key string) { s.hll.InsertHash(stableHash(key)) }

// merge takes in what another sketch has noted, in the form of pack.
func (s *sketch) merge(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	if len(packed) < 8 {
		return fmt.Errorf("a sketch of %d bytes", len(packed))
	}
	other := newSketch()
	if err := other.hll.UnmarshalBinary(packed[8:]); err != nil {
		return fmt.Errorf("a sketch cannot be read: %w", err)
	}
	s.every = max(s.every, int64(binary.LittleEndian.Uint64(packed)))
	return s.hll.Merge(other.hll)
}

// pack returns the sketch as bytes.
func (s *sketch) pack() []byte {
	out, err := s.hll.AppendBinary(binary.LittleEndian.AppendUint64(nil, uint64(s.every)))
	if err != nil {
		panic("analytics: a sketch cannot be packed: " + err.Error()) // memory has all of it
	}
	return out
}

// count returns how many different keys were noted, about.
func (s *sketch) count() int64 { return int64(s.hll.Estimate()) }

// stableHash is a hash that is the same in every process: FNV-1a, whose bits are
// mixed, since sketches look at the first ones.
//
// Source: Fowler, Noll and Vo; the finalizer of SplitMix64, Steele, Lea and
// Flood, 2014.
func stableHash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// everyOf returns how many keys there are for each one in a packed sketch.
func everyOf(packed []byte) int64 {
	if len(packed) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(packed))
}

// keys are sketches of how many keys there were.
type keys struct{ limited, sampled *sketch }

func newKeys() *keys { return &keys{newSketch(), newSketch()} }

func (k *keys) merge(kind string, packed []byte) error {
	if kind == sketchSampled {
		return k.sampled.merge(packed)
	}
	return k.limited.merge(packed)
}

// count returns how many keys were limited and how many there were: the sampled
// ones times how many each stands for, at least those that were limited. Where none was
// sampled, how many there were is not known, and seen is zero.
func (k *keys) count() (limited, seen int64, known bool) {
	limited = k.limited.count()
	if k.sampled.every == 0 {
		return limited, 0, false
	}
	return limited, max(limited, k.sampled.count()*k.sampled.every), true
}
