package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Paired are samples of two subjects, taken in blocks of time: in each block
// both met the same disturbances, which may last for a block and no longer.
// Not safe for concurrent use.
type Paired struct {
	sides  [2]side
	sorted bool
}

// side is one of the subjects.
type side struct {
	samples []sample
	counts  []int64 // samples in each block
}

// sample is a figure and the block in which it was taken.
type sample struct{ value, block int32 }

// Add adds a block: the samples of both subjects in it.
func (p *Paired) Add(first, second []int32) {
	for i, values := range [2][]int32{first, second} {
		s := &p.sides[i]
		for _, v := range values {
			s.samples = append(s.samples, sample{v, int32(len(s.counts))})
		}
		s.counts = append(s.counts, int64(len(values)))
	}
	p.sorted = false
}

// Blocks returns how many there are.
func (p *Paired) Blocks() int { return len(p.sides[0].counts) }

// Quantile returns the q-th quantile of all samples of a subject, 0 or 1: the
// least that at least the q-th part of them do not exceed. It is 0 without any.
func (p *Paired) Quantile(subject int, q float64) float64 {
	p.sort()
	return p.sides[subject].quantile(q, slices.Repeat([]int64{1}, p.Blocks()))
}

// Added returns by how much the second subject's quantile exceeds the first's,
// with a 95 % interval of the block bootstrap: blocks are drawn with
// replacement, the two quantiles taken of all samples in them, and the interval
// holds the middle 95 % of the differences. The same seed draws the same blocks.
//
// Source: Efron and Tibshirani, An Introduction to the Bootstrap, §8.5 and §13.
func (p *Paired) Added(q float64, draws int, seed uint64) Interval {
	p.sort()
	all := Interval{Estimate: p.Quantile(1, q) - p.Quantile(0, q), Low: math.Inf(-1), High: math.Inf(1)}
	blocks := p.Blocks()
	if blocks < 2 || draws < 2 {
		return all // nothing is known of how blocks differ
	}
	source := rand.New(rand.NewPCG(seed, 0))
	added, weights := make([]float64, draws), make([]int64, blocks)
	for i := range added {
		clear(weights)
		for range blocks {
			weights[source.IntN(blocks)]++
		}
		added[i] = p.sides[1].quantile(q, weights) - p.sides[0].quantile(q, weights)
	}
	slices.Sort(added)
	all.Low = added[int(0.025*float64(draws-1))]
	all.High = added[int(math.Ceil(0.975*float64(draws-1)))]
	return all
}

func (p *Paired) sort() {
	if p.sorted {
		return
	}
	for _, s := range p.sides {
		slices.SortFunc(s.samples, func(a, b sample) int { return int(a.value) - int(b.value) })
	}
	p.sorted = true
}

// quantile returns a quantile of samples in ascending order that count as often
// as the weight of their block says.
func (s *side) quantile(q float64, weights []int64) float64 {
	var total int64
	for block, n := range s.counts {
		total += n * weights[block]
	}
	if total == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(total))), 1)
	// The upper quantiles are asked for most, so it counts from above.
	above := total - rank
	for _, sample := range slices.Backward(s.samples) {
		if above -= weights[sample.block]; above < 0 {
			return float64(sample.value)
		}
	}
	return 0
}

// Interval is an estimate and the ends of its 95 % interval.
type Interval struct{ Estimate, Low, High float64 }

// Width returns how wide the interval is.
func (i Interval) Width() float64 { return i.High - i.Low }

// String returns "42.0 (31.0 to 55.0)".
func (i Interval) String() string {
	return fmt.Sprintf("%s (%s to %s)", Number(i.Estimate), Number(i.Low), Number(i.High))
}

// AtMost says whether the figure is at most aim: "met" where the whole interval
// is, "missed" where none of it is, else "not decided".
func (i Interval) AtMost(aim float64) string {
	switch {
	case i.High <= aim:
		return "met"
	case i.Low > aim:
		return "missed"
	}
	return "not decided"
}
