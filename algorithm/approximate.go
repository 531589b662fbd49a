package algorithm

import (
	"fmt"
	"math/bits"

	"github.com/weirlimit/weir"
)

// Approximate counts all keys together, in a Bloom filter and count-min
// sketches of fixed size, one of each for every sub-window of the period.
//
// Guarantee: at most Count units of any key in any interval of one Period. The
// sketch never counts less than was spent, so it never admits too much; it may
// refuse too early: a key is over-counted by more than ErrorPermille of Count
// with a small chance, see package sketch.
//
// State: fixed, whatever the number of keys: about (Generations+1) *
// (4*Width*Depth + BloomBits/8) bytes, 26 MiB unless [params.SketchOptions] say otherwise.
//
// A store that can hold a sketch decides; others refuse the limit. Costs can be
// neither given back nor reserved.
//
// Clock steps: for a clock that goes back it stays the latest time that was
// seen. Rule changes: a new count holds at once; a new period or size starts
// afresh.
//
// Choose it where keys are counted in millions and memory is not.
//
// Source: Cormode and Muthukrishnan 2005; Estan and Varghese 2002
// (conservative update); Bloom 1970.
var Approximate weir.Algorithm = approximate{}

type approximate struct{}

// Name implements weir.Algorithm.
func (approximate) Name() string { return "approximate" }

// Traits implements weir.Algorithm.
func (approximate) Traits() weir.Traits { return weir.Sketches }

// Prepare implements weir.Algorithm. What depends on the memory at hand is for
// the store to check.
func (approximate) Prepare(l *weir.Limit) error {
	o := &l.Sketch
	within := func(name string, n, least, most int64) error {
		if n != 0 && (n < least || n > most) {
			return fmt.Errorf("sketch %s %d must be between %d and %d, or 0 for the default", name, n, least, most)
		}
		return nil
	}
	for _, err := range []error{
		within("expect", o.Expect, 1, weir.MaxCost),
		within("error permille", o.ErrorPermille, 1, 1000),
		within("width", int64(o.Width), 1, 1<<26),
		within("depth", int64(o.Depth), 1, 16),
		within("bloom bits", o.BloomBits, 1, 1<<33),
		within("bloom hashes", int64(o.BloomHashes), 1, 32),
		within("generations", int64(o.Generations), 1, 64),
	} {
		if err != nil {
			return err
		}
	}
	if o.Width != 0 && bits.OnesCount64(uint64(o.Width)) != 1 {
		return fmt.Errorf("sketch width %d must be a power of two, such as %d", o.Width, 1<<bits.Len64(uint64(o.Width)))
	}
	// A counter has 32 bits, and a full one must refuse.
	if most := int64(1)<<32 - 1; l.Count > most {
		return fmt.Errorf("count %d is above the %d that a sketch can count: use sliding_window", l.Count, most)
	}
	l.Cells, l.Layout, l.Envelope = 1, "sketch", l.Count
	return nil
}

// Step implements weir.Algorithm. It is never called: a key has no state of its
// own. It refuses.
func (approximate) Step(_ []int64, l *weir.Limit, _ weir.Ask) weir.Decision {
	return weir.Decision{Limit: l, RetryAfter: weir.Never}
}
