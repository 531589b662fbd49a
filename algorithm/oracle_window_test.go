package algorithm_test

import (
	"math/big"
	"math/rand/v2"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

func oracleCases() []oracleCase {
	return []oracleCase{
		{name: "fixed_window", limit: someFixed, model: newFixedOracle, most: countOf},
		{name: "sliding_window", limit: someSliding, model: newSlidingOracle, most: countOf},
	}
}

// slidingOracle: a list of spends, each with the start of its window, weighed
// in big integers.
type slidingOracle struct {
	l      *weir.Limit
	period int64
	spends []spent // until is the start of the window that the units count in
	latest int64   // start of the latest window in which anything changed
	most   int64   // more units in a window are not told apart
	shift  uint    // weights are in ticks of 2^shift microseconds
}

func newSlidingOracle(l *weir.Limit) oracle {
	o := &slidingOracle{l: l, period: weir.Micros(l.Period), most: weir.MaxCost}
	// One word holds two counts of b bits where 2^2b <= period<<11.
	b := 0
	for new(big.Int).Lsh(big.NewInt(1), uint(2*b+2)).Cmp(new(big.Int).Lsh(big.NewInt(o.period), 11)) <= 0 {
		b++
	}
	if most := int64(1)<<b - 1; l.Count <= most {
		o.most = most
	}
	product := func() *big.Int { return mul(l.Count, o.period>>o.shift) }
	for product().Cmp(big.NewInt(1<<53)) > 0 && o.period>>o.shift > 1 {
		o.shift++
	}
	return o
}

func mul(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// at returns the start of the window that now counts as: never before the
// latest that was counted in.
func (o *slidingOracle) at(now int64) int64 {
	return max(floorTo(now, o.period), o.latest)
}

func (o *slidingOracle) in(start int64) int64 {
	return unitsOf(o.spends, func(s spent) bool { return s.until == start })
}

func (o *slidingOracle) passes(now, cost int64) bool {
	start := o.at(now)
	left := o.period - max(now-start, 0)
	whole := o.period >> o.shift
	weight := min((left+1<<o.shift-1)>>o.shift, whole)
	used := mul(o.in(start-o.period), weight)
	used.Add(used, mul(o.in(start)+cost, whole))
	return used.Cmp(mul(o.l.Count, whole)) <= 0
}

func (o *slidingOracle) charge(now, cost int64) {
	start := o.at(now)
	o.spends = append(o.spends, spent{now, start, min(cost, o.most-o.in(start))})
	o.latest = start
}

func (o *slidingOracle) giveBack(now, cost, receipt int64) {
	start := o.at(now)
	refundOf(o.spends, cost, func(s spent) bool {
		return s.until >= start-o.period && (receipt == 0 || s.until+2*o.period == receipt)
	})
	o.latest = start
	if o.untouched(now) {
		o.latest, o.spends = 0, nil
	}
}

func (o *slidingOracle) untouched(now int64) bool {
	start := o.at(now)
	return o.in(start) == 0 && o.in(start-o.period) == 0
}

func someSliding(r *rand.Rand) *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
}
