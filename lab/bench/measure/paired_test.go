package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPairedQuantiles(t *testing.T) {
	var p Paired
	if p.Quantile(0, 0.5) != 0 {
		t.Error("a quantile of nothing is not 0")
	}
	// 1 to 50 and 51 to 100, out of order; the other subject ten more of each.
	for _, base := range []int32{51, 1} {
		var a, b []int32
		for i := int32(49); i >= 0; i-- {
			a, b = append(a, base+i), append(b, base+i+10)
		}
		p.Add(a, b)
	}
	for q, want := range map[float64]float64{0: 1, 0.01: 1, 0.5: 50, 0.501: 51, 0.99: 99, 0.991: 100, 1: 100} {
		if got := p.Quantile(0, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
		if got := p.Quantile(1, q); got != want+10 {
			t.Errorf("the other's quantile %g is %g, want %g", q, got, want+10)
		}
	}
	if n := p.Blocks(); n != 2 {
		t.Errorf("%d blocks, want 2", n)
	}
}

// A draw counts a block as often as it was drawn.
func TestPairedWeighsBlocks(t *testing.T) {
	var p Paired
	p.Add([]int32{1, 2, 3}, nil)
	p.Add([]int32{10}, nil)
	p.sort()
	f := func(want float64, q float64, weights ...int64) {
		t.Helper()
		if got := p.sides[0].quantile(q, weights); got != want {
			t.Errorf("quantile %g with weights %d is %g, want %g", q, weights, got, want)
		}
	}
	f(3, 1, 2, 0)
	f(10, 0, 0, 2)
	f(2, 0.5, 1, 1)
	f(10, 0.5, 1, 4) // 1 2 3 10 10 10 10
	f(0, 0.5, 0, 0)
}

// world draws blocks of two subjects whose quantiles are known: exponential
// times of mean 100, stretched in each block by a disturbance that both meet,
// and to the second's something is added.
func world(seed uint64, blocks int, added float64) *Paired {
	source := rand.New(rand.NewPCG(seed, 1))
	var p Paired
	for range blocks {
		stretch := 1 + source.ExpFloat64()
		sides := [2][]int32{}
		for side := range sides {
			for range 500 {
				sides[side] = append(sides[side], int32(100*stretch*source.ExpFloat64()+added*float64(side)))
			}
		}
		p.Add(sides[0], sides[1])
	}
	return &p
}

// Nineteen of twenty intervals hold what is true, as they claim to; a little
// fewer, as the bootstrap of 25 blocks is a little narrow.
func TestAddedCoversTheTruth(t *testing.T) {
	const worlds = 200
	for _, q := range []float64{0.5, 0.99} {
		for _, added := range []float64{0, 60} {
			held := 0
			for seed := range uint64(worlds) {
				i := world(seed, 25, added).Added(q, 200, seed)
				if i.Low <= added && added <= i.High {
					held++
				}
				if i.Estimate < i.Low || i.Estimate > i.High {
					t.Errorf("q %g: the estimate is out of its interval %s", q, i)
				}
			}
			if share := float64(held) / worlds; share < 0.88 || share > 0.99 {
				t.Errorf("q %g, %g added: %.3f of the intervals hold it, want about 0.95", q, added, share)
			}
		}
	}
}

// What both meet alike cancels: the interval of the difference is narrower than
// blocks that are not pairs would make it.
func TestPairingNarrowsTheInterval(t *testing.T) {
	paired, broken := world(7, 40, 0), &Paired{}
	other := world(8, 40, 0)
	for block := range int32(40) {
		of := func(p *Paired, side int) (values []int32) {
			p.sort()
			for _, s := range p.sides[side].samples {
				if s.block == block {
					values = append(values, s.value)
				}
			}
			return values
		}
		broken.Add(of(paired, 0), of(other, 1))
	}
	with, without := paired.Added(0.5, 500, 1), broken.Added(0.5, 500, 1)
	if with.Width() > without.Width()/2 {
		t.Errorf("paired %s, not paired %s: want half as wide at most", with, without)
	}
}

func TestAddedIsRepeatable(t *testing.T) {
	p := world(3, 20, 10)
	one, same, other := p.Added(0.99, 100, 1), p.Added(0.99, 100, 1), p.Added(0.99, 100, 2)
	if one != same {
		t.Errorf("one seed gives %v and %v", one, same)
	}
	if one == other {
		t.Errorf("two seeds give the same %v", one)
	}
}

func TestOneBlockDecidesNothing(t *testing.T) {
	i := world(1, 1, 0).Added(0.5, 100, 1)
	if !math.IsInf(i.Width(), 1) || i.AtMost(1e9) != "not decided" {
		t.Errorf("interval %v of one block, want an endless one", i)
	}
}

func TestIntervalAtMost(t *testing.T) {
	f := func(want string, low, high float64) {
		t.Helper()
		if got := (Interval{Low: low, High: high}).AtMost(60); got != want {
			t.Errorf("%g to %g, at most 60: %s, want %s", low, high, got, want)
		}
	}
	f("met", -10, 60)
	f("not decided", 60, 61)
	f("not decided", -1000, 1000)
	f("missed", 60.1, 61)
	if got := (Interval{42, 31, 55.25}).String(); got != "42.0 (31.0 to 55.2)" {
		t.Errorf("written %q", got)
	}
}
