package sketch

import (
	"fmt"
	"math"
)

const (
	// MaxDepth is the most rows a sketch may have.
	MaxDepth = 16
	// MaxWidth is the most columns a row may have.
	MaxWidth = 1 << 26
	// Saturated is the estimate of a key all of whose counters are full: at
	// least 2^32-1 units, how many is not known.
	Saturated = math.MaxUint64
)

// A CountMin counts the units of any number of keys in depth rows of width
// counters: 4*depth*width bytes.
//
// Theorem. Let M be the sum of all units added. For every key, Estimate is at
// least the units added for it; and it exceeds them by more than e*M/width with
// a chance of at most e^-depth over the seed of the hash. Conservative update
// (raise only the counters that must rise) never makes an estimate larger and in
// practice makes it several times more exact; it is why two CountMin cannot be
// added cell by cell, and why nothing can be taken out.
//
// Counters stop at 2^32-1. A key whose counters are all full is estimated as
// [Saturated], so that the first half of the theorem holds even there.
//
// A CountMin is not safe for concurrent use: lock it. One atomic per counter
// would not do: two adds for one key that read the same estimate would both
// raise to the same value, and a unit would be lost.
//
// Source: Cormode and Muthukrishnan, "An improved data stream summary: the
// count-min sketch and its applications", 2005; Estan and Varghese, "New
// directions in traffic measurement and accounting", 2002, for conservative
// update.
type CountMin struct {
	cells []uint32 // row after row
	mask  uint64   // width - 1
	depth int
	used  int // counters above zero
}

// NewCountMin returns an empty sketch of depth rows (1 to [MaxDepth]) and at
// least width columns (1 to [MaxWidth]), rounded up to a power of two.
func NewCountMin(depth, width int) (*CountMin, error) {
	if err := checkTable(depth, width); err != nil {
		return nil, err
	}
	c := makeCountMin(depth, powerOfTwo(width))
	return &c, nil
}

func makeCountMin(depth, width int) CountMin {
	return CountMin{cells: make([]uint32, depth*width), mask: uint64(width - 1), depth: depth}
}

func checkTable(depth, width int) error {
	if depth < 1 || depth > MaxDepth {
		return fmt.Errorf("sketch: depth is %d rows: choose 1 to %d", depth, MaxDepth)
	}
	if width < 1 || width > MaxWidth {
		return fmt.Errorf("sketch: width is %d columns: choose 1 to %d, or accept a larger error", width, MaxWidth)
	}
	return nil
}

// countMinSize returns the depth and width for which, after units have been
// added in all, a key is over-estimated by more than maxError units with a
// chance of at most p: width >= e*units/maxError, depth >= ln(1/p).
//
// Requires: units and maxError are at least 1, p is between 0 and 1. The width is
// a power of two; it is an error if it is too large for [NewCountMin].
func countMinSize(units, maxError int64, p float64) (depth, width int, err error) {
	w := math.Ceil(math.E * float64(units) / float64(maxError))
	if w > MaxWidth {
		return 0, 0, fmt.Errorf("sketch: %d units within an error of %d need %.0f columns: at most %d are kept, choose a larger error", units, maxError, w, MaxWidth)
	}
	return max(1, int(math.Ceil(-math.Log(p)))), powerOfTwo(int(w)), nil
}

// Width returns the number of columns.
func (c *CountMin) Width() int { return int(c.mask) + 1 }

// Bytes returns the memory of the counters.
func (c *CountMin) Bytes() int64 { return int64(len(c.cells)) * 4 }

// FillShare returns the share of counters above zero, 0 to 1.
func (c *CountMin) FillShare() float64 { return float64(c.used) / float64(len(c.cells)) }

// Estimate returns the units of the key with hash h: never fewer than were added.
func (c *CountMin) Estimate(h uint64) uint64 { return c.estimate(newProbe(h)) }

// AddUnits adds n units to the key with hash h and returns its estimate afterwards.
func (c *CountMin) AddUnits(h, n uint64) uint64 { return c.addByProbe(newProbe(h), n) }

// Reset forgets every key.
func (c *CountMin) Reset() {
	if c.used == 0 {
		return
	}
	clear(c.cells)
	c.used = 0
}

func (c *CountMin) estimate(p probe) uint64 {
	least := uint32(math.MaxUint32)
	row := c.cells
	for i := range c.depth {
		least = min(least, row[p.column(i, c.mask)])
		row = row[c.mask+1:]
	}
	return widenCounter(least)
}

func (c *CountMin) addByProbe(p probe, n uint64) uint64 {
	est := c.estimate(p)
	if est == Saturated || n == 0 {
		return est
	}
	return c.raiseCounters(p, est+min(n, math.MaxUint32))
}

// raiseCounters lifts every counter of the key that is below v to v.
//
// Invariant: each counter is at least the units of every key that maps to it.
func (c *CountMin) raiseCounters(p probe, v uint64) uint64 {
	to := uint32(min(v, math.MaxUint32))
	least := uint32(math.MaxUint32)
	row := c.cells
	for i := range c.depth {
		cell := &row[p.column(i, c.mask)]
		if *cell < to {
			if *cell == 0 {
				c.used++
			}
			*cell = to
		}
		least = min(least, *cell)
		row = row[c.mask+1:]
	}
	return widenCounter(least)
}

// widenCounter turns a full counter into Saturated.
func widenCounter(cell uint32) uint64 {
	if cell == math.MaxUint32 {
		return Saturated
	}
	return uint64(cell)
}
