package sketch

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

const (
	// failure is the chance that a key is over-estimated by more than the error that
	// a window is sized for.
	failure = 0.02
	// falsePositives is the share of keys that a generation wrongly takes for seen.
	falsePositives = 0.01
)

// WindowOptions sizes a [Window]: by an error target (Limit, Units, MaxError; Keys)
// or directly (Depth, Width; BloomBits, BloomHashes). Sizes are those of one
// generation over all shards.
type WindowOptions struct {
	// Period is W in microseconds, at least 1. Zero means a missing period,
	// which is an error.
	Period int64
	// SubWindows is m, at most 64. Zero means 4.
	SubWindows int

	// Units is how many units of all keys are admitted in one period. Zero means
	// unknown: Depth and Width are used as they are.
	Units int64
	// Limit is L, of which MaxError is a share. Zero means a missing limit, which
	// is an error if Units is set and Width is not.
	Limit int64
	// MaxError is the tolerated over-estimate as a share of Limit. Zero means
	// 0.02.
	MaxError float64
	// Depth is the number of rows. Zero means 4, with which a key is over-estimated by
	// more than that with a chance of 0.02.
	Depth int
	// Width is the number of columns, rounded up to a power of two. Zero means
	// what Units and MaxError ask for, or 65536 if Units is zero.
	Width int

	// Keys is how many keys are seen in one period. Zero means 100,000.
	Keys int64
	// BloomBits is the number of bits of the Bloom filter. Zero means as many that a
	// generation wrongly takes one key in a hundred for seen.
	BloomBits int64
	// BloomHashes is the number of positions kept for a key. Zero means what suits
	// that share.
	BloomHashes int

	// Shards is the number of locks, a power of two, at most 1024. Zero means
	// 16, more if clearing a shard's generation would touch over 256 KiB, fewer
	// if a shard would have under 256 columns.
	Shards int
	// SampleEvery is n where one key in n is also counted exactly, to measure
	// the error. Zero means 1024, negative means no key.
	SampleEvery int64
	// SampleKeys is how many keys are counted exactly at most, over all shards,
	// up to 65,536. A call for a sampled key searches those of its shard one by
	// one. Zero means 1024.
	SampleKeys int
	// MaxBytes is the memory above which NewWindow refuses. Zero means 1 GiB.
	MaxBytes int64
}

// Check returns the error that NewWindow would, and allocates nothing.
func (o WindowOptions) Check() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults returns the options with every zero replaced and every value checked.
func (o WindowOptions) withDefaults() (WindowOptions, error) {
	if o.Period < 1 {
		return o, fmt.Errorf("sketch: window of %d µs: set Period to at least 1", o.Period)
	}
	o.SubWindows = cmp.Or(o.SubWindows, 4)
	if o.SubWindows < 1 || o.SubWindows > 64 {
		return o, fmt.Errorf("sketch: window of %d sub-windows: choose 1 to 64", o.SubWindows)
	}
	var err error
	if o, err = o.sizedCounters(); err != nil {
		return o, err
	}
	if o, err = o.sizedBloom(); err != nil {
		return o, err
	}
	if o, err = o.sizedShards(); err != nil {
		return o, err
	}
	return o, o.checkBytes()
}

func (o WindowOptions) sizedCounters() (WindowOptions, error) {
	o.MaxError = cmp.Or(o.MaxError, 0.02)
	if o.Units < 0 || o.Limit < 0 || !(o.MaxError > 0 && o.MaxError <= 1) {
		return o, fmt.Errorf("sketch: window for %d units, limit %d, error %v: neither may be negative, and the error is a share of the limit up to 1", o.Units, o.Limit, o.MaxError)
	}
	units, maxError := int64(1), int64(1)
	if o.Units > 0 && o.Width == 0 {
		if o.Limit == 0 {
			return o, fmt.Errorf("sketch: window for %d units has no limit: set Limit, of which MaxError is a share", o.Units)
		}
		// m+1 generations hold the units of (m+1)/m periods.
		units = int64(min(float64(o.Units)*float64(o.SubWindows+1)/float64(o.SubWindows), math.MaxInt64/2))
		maxError = max(1, int64(o.MaxError*float64(o.Limit)))
	}
	depth, width, err := countMinSize(units, maxError, failure)
	if err != nil {
		return o, err
	}
	if o.Units == 0 {
		width = 1 << 16
	}
	o.Depth, o.Width = cmp.Or(o.Depth, depth), cmp.Or(o.Width, width)
	if err := checkTable(o.Depth, o.Width); err != nil {
		return o, err
	}
	o.Width = powerOfTwo(o.Width)
	return o, nil
}

func (o WindowOptions) sizedBloom() (WindowOptions, error) {
	o.Keys = cmp.Or(o.Keys, 100_000)
	size, hashes, err := bloomSize(o.Keys, falsePositives)
	if err != nil {
		return o, err
	}
	o.BloomBits, o.BloomHashes = cmp.Or(o.BloomBits, size), cmp.Or(o.BloomHashes, hashes)
	return o, checkBloom(o.BloomBits, o.BloomHashes)
}

func (o WindowOptions) sizedShards() (WindowOptions, error) {
	const (
		most       = 1024
		clearBytes = 256 << 10
		columns    = 256
	)
	if o.Shards == 0 {
		o.Shards = 16
		generation := 4*int64(o.Depth)*int64(o.Width) + o.BloomBits/8
		for o.Shards < most && generation/int64(o.Shards) > clearBytes {
			o.Shards *= 2
		}
		for o.Shards > 1 && o.Width/o.Shards < columns {
			o.Shards /= 2
		}
	}
	if o.Shards < 1 || o.Shards > most || bits.OnesCount(uint(o.Shards)) != 1 || o.Shards > o.Width {
		return o, fmt.Errorf("sketch: window of %d shards and %d columns: choose a power of two up to %d and at least one column for each", o.Shards, o.Width, most)
	}
	o.SampleEvery, o.SampleKeys = cmp.Or(o.SampleEvery, 1024), cmp.Or(o.SampleKeys, 1024)
	if o.SampleEvery > 1<<32 || o.SampleKeys < 1 || o.SampleKeys > 1<<16 {
		return o, fmt.Errorf("sketch: sample of one key in %d, at most %d: choose up to 2^32, and 1 to 2^16 keys", o.SampleEvery, o.SampleKeys)
	}
	return o, nil
}

func (o WindowOptions) checkBytes() error {
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	generations := int64(o.SubWindows + 1)
	need := generations * (4*int64(o.Depth)*int64(o.Width) + o.BloomBits/8)
	if need > o.MaxBytes {
		return fmt.Errorf("sketch: window needs %d bytes, more than the %d allowed: accept a larger error, make it narrower, or keep fewer sub-windows", need, o.MaxBytes)
	}
	return nil
}
