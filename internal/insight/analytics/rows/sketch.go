package rows

import (
	"encoding/binary"
	"fmt"

	"github.com/axiomhq/hyperloglog"
)

// Kinds of sketches.
const (
	SketchLimited = "limited" // keys that were limited
	SketchSampled = "sampled" // keys of the sample
)

// sketchPrecision is 2^11 registers: a standard error of 1.04/sqrt(2048) = 2.3 %.
const sketchPrecision = 11

// Sketch counts different keys.
type Sketch struct {
	hll *hyperloglog.Sketch
	// Every is how many keys there are for each one that can be in it.
	Every int64
}

// NewSketch returns a sketch of no keys.
func NewSketch() *Sketch {
	hll, err := hyperloglog.NewSketch(sketchPrecision, true)
	if err != nil {
		panic("analytics: the precision of sketches is not one")
	}
	return &Sketch{hll: hll}
}

// AddKey notes a key.
func (s *Sketch) AddKey(key string) { s.hll.InsertHash(stableHash(key)) }

// MergeRow takes in what another sketch has noted, in the form of pack.
func (s *Sketch) MergeRow(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	if len(packed) < 8 {
		return fmt.Errorf("a sketch of %d bytes", len(packed))
	}
	other := NewSketch()
	if err := other.hll.UnmarshalBinary(packed[8:]); err != nil {
		return fmt.Errorf("a sketch cannot be read: %w", err)
	}
	s.Every = max(s.Every, int64(binary.LittleEndian.Uint64(packed)))
	return s.hll.Merge(other.hll)
}

// MarshalRow returns the sketch as bytes.
func (s *Sketch) MarshalRow() []byte {
	out, err := s.hll.AppendBinary(binary.LittleEndian.AppendUint64(nil, uint64(s.Every)))
	if err != nil {
		panic("analytics: a sketch cannot be packed: " + err.Error()) // memory has all of it
	}
	return out
}

// CountKeys returns how many different keys were noted, about.
func (s *Sketch) CountKeys() int64 { return int64(s.hll.Estimate()) }

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

// ReadEvery returns how many keys there are for each one in a packed sketch.
func ReadEvery(packed []byte) int64 {
	if len(packed) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(packed))
}
