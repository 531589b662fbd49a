package algorithm_test

import (
	"cmp"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// counterOracle: a list of spends, each with the start of its window, weighed
// in big integers.
type counterOracle struct {
	l      *weir.Limit
	period int64
	spends []spent // until is the start of the window that the units count in
	most   int64   // more units in a window are not told apart
	shift  uint    // weights are in ticks of 2^shift microseconds
}

func newCounterOracle(l *weir.Limit) oracle {
	o := &counterOracle{l: l, period: micros.Of(l.Period), most: weir.MaxCost}
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
// latest that holds units.
func (o *counterOracle) at(now int64) int64 {
	start := floorTo(now, o.period)
	for _, s := range o.spends {
		if s.units > 0 {
			start = max(start, s.until)
		}
	}
	return start
}

func (o *counterOracle) in(start int64) int64 {
	return unitsOf(o.spends, func(s spent) bool { return s.until == start })
}

func (o *counterOracle) passes(now, cost int64) bool {
	start := o.at(now)
	left := o.period - max(now-start, 0)
	whole := o.period >> o.shift
	weight := min((left+1<<o.shift-1)>>o.shift, whole)
	used := mul(o.in(start-o.period), weight)
	used.Add(used, mul(o.in(start)+cost, whole))
	return used.Cmp(mul(o.l.Count, whole)) <= 0
}

func (o *counterOracle) charge(now, cost int64) {
	start := o.at(now)
	o.spends = slices.DeleteFunc(o.spends, func(s spent) bool { return s.until < start-o.period })
	o.spends = append(o.spends, spent{now, start, min(cost, o.most-o.in(start))})
}

func (o *counterOracle) giveBack(now, cost, receipt int64) {
	start := o.at(now)
	refundOf(o.spends, cost, func(s spent) bool {
		return s.until >= start-o.period && (receipt == 0 || s.until+2*o.period == receipt)
	})
	// Only the two windows that count are remembered.
	o.spends = slices.DeleteFunc(o.spends, func(s spent) bool { return s.until < start-o.period || s.units == 0 })
}

func (o *counterOracle) untouched(now int64) bool {
	start := o.at(now)
	return o.in(start) == 0 && o.in(start-o.period) == 0
}

func someCounter(r *rand.Rand) *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
}

// subwindowsOracle: a list of spends, each with the start of its sub-window.
type subwindowsOracle struct {
	l      *weir.Limit
	length int64 // of a sub-window
	m      int64 // sub-windows in a period
	spends []spent
	most   int64
	shift  uint
}

func newSubwindowsOracle(l *weir.Limit) oracle {
	o := &subwindowsOracle{l: l, m: int64(l.Precision), most: weir.MaxCost}
	if o.m == 0 {
		o.m = 60
	}
	period := micros.Of(l.Period)
	for o.length = period / o.m; o.length*o.m < period; o.length++ {
	}
	for (o.m-1)*o.length >= period { // a period of fewer microseconds
		o.m--
	}
	switch {
	case l.Count <= 1<<16-1:
		o.most = 1<<16 - 1
	case l.Count <= 1<<32-1:
		o.most = 1<<32 - 1
	}
	for mul(l.Count, o.length>>o.shift).Cmp(big.NewInt(1<<53)) > 0 && o.length>>o.shift > 1 {
		o.shift++
	}
	return o
}

// at returns the start of the sub-window that now counts as: never before the
// latest that holds units.
func (o *subwindowsOracle) at(now int64) int64 {
	start := floorTo(now, o.length)
	for _, s := range o.spends {
		if s.units > 0 {
			start = max(start, s.until)
		}
	}
	return start
}

// behind returns the units in the sub-windows that are from to to behind start.
func (o *subwindowsOracle) behind(start, from, to int64) int64 {
	return unitsOf(o.spends, func(s spent) bool {
		n := (start - s.until) / o.length
		return from <= n && n <= to
	})
}

// kept is how many sub-windows count.
func (o *subwindowsOracle) kept() int64 {
	if o.l.Form == params.Lenient {
		return o.m
	}
	return o.m + 1
}

func (o *subwindowsOracle) passes(now, cost int64) bool {
	start := o.at(now)
	if o.l.Form != params.Weighted {
		return o.behind(start, 0, o.kept()-1)+cost <= o.l.Count
	}
	left, whole := o.length-max(now-start, 0), o.length>>o.shift
	used := mul(o.behind(start, o.m, o.m), min((left+1<<o.shift-1)>>o.shift, whole))
	used.Add(used, mul(o.behind(start, 0, o.m-1)+cost, whole))
	return used.Cmp(mul(o.l.Count, whole)) <= 0
}

func (o *subwindowsOracle) charge(now, cost int64) {
	start := o.at(now)
	o.spends = slices.DeleteFunc(o.spends, func(s spent) bool { return s.until <= start-o.kept()*o.length })
	o.spends = append(o.spends, spent{now, start, min(cost, o.most-o.behind(start, 0, 0))})
}

func (o *subwindowsOracle) giveBack(now, cost, receipt int64) {
	if o.untouched(now) {
		return
	}
	first := o.at(now) - (o.kept()-1)*o.length
	slices.SortStableFunc(o.spends, func(a, b spent) int { return cmp.Compare(a.until, b.until) })
	refundOf(o.spends, cost, func(s spent) bool {
		return s.until >= first && (receipt == 0 || receipt == s.until+o.kept()*o.length)
	})
	if o.behind(first+(o.kept()-1)*o.length, 0, o.kept()-1) == 0 {
		o.spends = nil
	}
}

func (o *subwindowsOracle) untouched(now int64) bool {
	return o.behind(o.at(now), 0, o.kept()-1) == 0
}

func someSubwindows(form params.Form) func(r *rand.Rand) *weir.Limit {
	return func(r *rand.Rand) *weir.Limit {
		l := &weir.Limit{Algorithm: algorithm.SlidingSubwindows, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
		l.Form = form
		l.Precision = []int{0, 2, 3, 4, 7, 12, 120, 240}[r.IntN(8)]
		return l
	}
}

// logOracle: a list of all spends. until is when a spend's units stop to count.
type logOracle struct {
	l      *weir.Limit
	period int64
	spends []spent
}

func newLogOracle(l *weir.Limit) oracle { return &logOracle{l: l, period: micros.Of(l.Period)} }

func (o *logOracle) used(now int64) int64 {
	return unitsOf(o.spends, func(s spent) bool { return s.until > now })
}

func (o *logOracle) passes(now, cost int64) bool { return o.used(now)+cost <= o.l.Count }
func (o *logOracle) untouched(now int64) bool    { return o.used(now) == 0 }

func (o *logOracle) charge(now, cost int64) {
	o.spends = slices.DeleteFunc(o.spends, func(s spent) bool { return s.until <= now || s.units == 0 })
	at := now
	for _, s := range o.spends {
		at = max(at, s.at)
	}
	o.spends = append(o.spends, spent{at, at + o.period, cost})
	// The newest Count units are remembered.
	left := o.l.Count
	for i := len(o.spends) - 1; i >= 0; i-- {
		o.spends[i].units = min(o.spends[i].units, left)
		left -= o.spends[i].units
	}
}

func (o *logOracle) giveBack(now, cost, receipt int64) {
	refundOf(o.spends, cost, func(s spent) bool {
		return s.until > now && (receipt == 0 || receipt == s.until)
	})
}

func someLog(r *rand.Rand) *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.SlidingLog, Count: someCount(r, 5000), Period: somePeriod(r),
		Params: params.Params{MaxLog: 5000}}
}

// leaseOracle: who holds how much until when. as says who asks.
type leaseOracle struct {
	l      *weir.Limit
	leases map[int64]spent
	id     int64
}

func newLeaseOracle(l *weir.Limit) oracle { return &leaseOracle{l: l, leases: map[int64]spent{}} }

func (o *leaseOracle) as(id int64) { o.id = id }

// used returns the units in use by all but one.
func (o *leaseOracle) used(now, but int64) (n int64) {
	for id, s := range o.leases {
		if s.until > now && id != but {
			n += s.units
		}
	}
	return n
}

func (o *leaseOracle) passes(now, cost int64) bool {
	if s := o.leases[o.id]; s.until > now && cost <= s.units {
		return true
	}
	return o.used(now, o.id)+cost <= o.l.Count
}

func (o *leaseOracle) untouched(now int64) bool { return o.used(now, 0) == 0 }

func (o *leaseOracle) charge(now, cost int64) {
	maps.DeleteFunc(o.leases, func(_ int64, s spent) bool { return s.until <= now })
	o.leases[o.id] = spent{now, max(o.leases[o.id].until, now+micros.Of(o.l.Period)), cost}
}

func (o *leaseOracle) giveBack(now, _, _ int64) {
	if o.leases[o.id].until > now {
		delete(o.leases, o.id)
		maps.DeleteFunc(o.leases, func(_ int64, s spent) bool { return s.until <= now })
	}
}

func someLeases(r *rand.Rand) *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.Concurrency, Count: someCount(r, 10_000), Period: somePeriod(r)}
}

// lockoutOracle: a list of failures, from which the run is told anew each time.
type lockoutOracle struct {
	l      *weir.Limit
	period int64
	spends []spent
}

func newLockoutOracle(l *weir.Limit) oracle {
	return &lockoutOracle{l: l, period: micros.Of(l.Period)}
}

// run returns how many failures the run counts at now.
func (o *lockoutOracle) run(now int64) (count int64) {
	var end int64
	for _, s := range o.spends {
		if s.at >= end {
			end, count = 0, 0
		}
		end = max(end, s.at+o.period)
		count += s.units
	}
	if now >= end {
		return 0
	}
	return count
}

func (o *lockoutOracle) passes(now, cost int64) bool { return o.run(now)+cost <= o.l.Count }
func (o *lockoutOracle) untouched(now int64) bool    { return o.run(now) == 0 }

func (o *lockoutOracle) charge(now, cost int64) {
	if o.untouched(now) {
		o.spends = nil
	}
	o.spends = append(o.spends, spent{at: now, units: min(cost, weir.MaxCost-o.run(now))})
}

func (o *lockoutOracle) giveBack(now, cost, receipt int64) {
	if o.untouched(now) || receipt != 0 && receipt <= now {
		return
	}
	refundOf(o.spends, cost, func(spent) bool { return true })
	if o.untouched(now) {
		o.spends = nil
	}
}

func someLockout(r *rand.Rand) *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.Lockout, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
}
