package sketch_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

// hash is a keyed hash with a fixed seed, so that every run sees the same keys.
func hash(key uint64) uint64 {
	x := key*0x9E3779B97F4A7C15 + 0x5851F42D4C957F2D
	x ^= x >> 33
	x *= 0xFF51AFD7ED558CCD
	x ^= x >> 33
	x *= 0xC4CEB9FE1A85EC53
	return x ^ x>>33
}

func zipf(seed, keys uint64) *rand.Zipf {
	return rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.05, 1, keys-1)
}

// plain counts like a count-min sketch without conservative update.
type plain struct {
	cells [][]uint64
	width uint64
}

func (p *plain) each(key uint64, f func(cell *uint64)) {
	for row := range p.cells {
		f(&p.cells[row][hash(key^uint64(row+1)<<40)%p.width])
	}
}

func TestCountMinAgainstExactCounts(t *testing.T) {
	const depth, width, events = 4, 1 << 12, 300_000
	c, err := sketch.NewCountMin(depth, width)
	if err != nil {
		t.Fatal(err)
	}
	rough := plain{width: width}
	for range depth {
		rough.cells = append(rough.cells, make([]uint64, width))
	}
	exact := map[uint64]uint64{}
	keys, costs := zipf(1, 100_000), rand.New(rand.NewPCG(2, 2))
	var units uint64
	for range events {
		key, n := keys.Uint64(), 1+costs.Uint64N(3)
		exact[key] += n
		units += n
		rough.each(key, func(cell *uint64) { *cell += n })
		if got := c.AddUnits(hash(key), n); got != c.Estimate(hash(key)) {
			t.Fatalf("Add returned %d, Estimate %d", got, c.Estimate(hash(key)))
		}
	}

	bound := math.E * float64(units) / width
	over := 0
	var mean, plainMean float64
	for key, n := range exact {
		est := c.Estimate(hash(key))
		if est < n {
			t.Fatalf("key %d: estimate %d below the %d units added", key, est, n)
		}
		if float64(est-n) > bound {
			over++
		}
		mean += float64(est-n) / float64(len(exact))
		least := uint64(math.MaxUint64)
		rough.each(key, func(cell *uint64) { least = min(least, *cell) })
		plainMean += float64(least-n) / float64(len(exact))
	}
	if share := float64(over) / float64(len(exact)); share > math.Exp(-depth) {
		t.Errorf("%.4f of the keys exceed the bound of %.0f, at most %.4f may", share, bound, math.Exp(-depth))
	}
	if mean > 0.75*plainMean {
		t.Errorf("mean error %.1f, without conservative update %.1f: expected far less", mean, plainMean)
	}
	if mean == 0 {
		t.Error("no error at all: the stream is too small to test anything")
	}

	c.Reset()
	if c.FillShare() != 0 {
		t.Errorf("fill is %v after Reset", c.FillShare())
	}
	for key := range exact {
		if est := c.Estimate(hash(key)); est != 0 {
			t.Fatalf("key %d: estimate %d after Reset", key, est)
		}
	}
}

func TestCountMinSaturates(t *testing.T) {
	c, _ := sketch.NewCountMin(3, 64)
	f := func(n, want uint64) {
		t.Helper()
		if got := c.AddUnits(7, n); got != want {
			t.Errorf("Add(%d) = %d, want %d", n, got, want)
		}
		if got := c.Estimate(7); got != want {
			t.Errorf("Estimate after Add(%d) = %d, want %d", n, got, want)
		}
	}
	f(math.MaxUint32-2, math.MaxUint32-2)
	f(1, math.MaxUint32-1)
	f(1, sketch.Saturated)
	f(1, sketch.Saturated)
	f(math.MaxUint64, sketch.Saturated)
	c.Reset()
	f(math.MaxUint64, sketch.Saturated)
	c.Reset()
	f(5, 5)
	f(math.MaxUint64, sketch.Saturated)
}

func TestCountMinRaise(t *testing.T) {
	c, _ := sketch.NewCountMin(4, 1024)
	f := func(v, want uint64) {
		t.Helper()
		if got := c.Raise(9, v); got != want || c.Estimate(9) != want {
			t.Errorf("Raise(%d) = %d, Estimate = %d, want %d", v, got, c.Estimate(9), want)
		}
	}
	f(5, 5)
	f(3, 5)
	f(8, 8)
	f(0, 8)
	f(math.MaxUint64, sketch.Saturated)
	if c.Estimate(10) != 0 {
		t.Errorf("another key estimates %d in a sketch of 1024 columns with one key", c.Estimate(10))
	}
}

func TestCountMinSize(t *testing.T) {
	f := func(units, maxError int64, missed float64, depth, width int) {
		t.Helper()
		d, w, err := sketch.CountMinSize(units, maxError, missed)
		if err != nil || d != depth || w != width {
			t.Errorf("CountMinSize(%d, %d, %v) = %d, %d, %v; want %d, %d", units, maxError, missed, d, w, err, depth, width)
		}
	}
	f(10_000_000, 20, 0.02, 4, 1<<21) // e*10M/20 = 1.36M
	f(1000, 1000, 0.5, 1, 4)          // e
	f(1, math.MaxInt64, 0.001, 7, 1)

	if d, w, err := sketch.CountMinSize(math.MaxInt64, 1, 0.1); err == nil {
		t.Errorf("CountMinSize of too many units = %d, %d; want an error", d, w)
	}

	for _, s := range [][2]int{{0, 1}, {17, 1}, {1, 0}, {-1, 8}, {1, sketch.MaxWidth + 1}, {1, math.MaxInt}} {
		if _, err := sketch.NewCountMin(s[0], s[1]); err == nil {
			t.Errorf("NewCountMin(%d, %d) succeeded", s[0], s[1])
		}
	}
	c, err := sketch.NewCountMin(5, 1000)
	if err != nil || c.Width() != 1024 || c.Bytes() != 4*5*1024 {
		t.Errorf("NewCountMin(5, 1000): %v, %d columns, %d bytes", err, c.Width(), c.Bytes())
	}
}
