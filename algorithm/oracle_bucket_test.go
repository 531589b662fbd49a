package algorithm_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// bucketOracle: a bucket in rational numbers. whole is the instant at which it
// is untouched again, in microseconds.
type bucketOracle struct {
	l     *weir.Limit
	whole *big.Rat
	full  *big.Rat // span that may be ahead of now for a request to pass
	bound *big.Int // whole is never further ahead of now
	meter bool     // not a queue
	most  int64    // largest cost that can pass
}

// spanOf returns how long n units take to flow, in microseconds.
func spanOf(l *weir.Limit, n int64) *big.Rat {
	return new(big.Rat).SetFrac(mul(n, micros.Of(l.Period)), big.NewInt(l.Count))
}

func floorRat(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) }

func ceilRat(x *big.Rat) *big.Int {
	minus := floorRat(new(big.Rat).Neg(x))
	return minus.Neg(minus)
}

func ratOf(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func newMeterOracle(l *weir.Limit) oracle {
	o := &bucketOracle{l: l, whole: new(big.Rat), full: spanOf(l, l.Burst), meter: true, most: l.Burst}
	o.bound = floorRat(o.full)
	o.bound.Mul(o.bound.Add(o.bound, big.NewInt(1)), big.NewInt(2))
	return o
}

func newQueueOracle(l *weir.Limit) oracle {
	o := &bucketOracle{l: l, whole: new(big.Rat), full: spanOf(l, l.Burst)}
	if l.MaxDelay > 0 {
		o.full = ratOf(micros.Of(l.MaxDelay))
	}
	o.full.Add(o.full, new(big.Rat).SetInt(floorRat(spanOf(l, l.Free))))
	o.full.Add(o.full, spanOf(l, 1))
	o.most = placesIn(l, o.full)
	o.bound = floorRat(o.full)
	o.bound.Mul(o.bound.Add(o.bound, big.NewInt(1)), big.NewInt(2))
	return o
}

// placesIn returns how many units take no longer than full to flow.
func placesIn(l *weir.Limit, full *big.Rat) int64 {
	n := floorRat(new(big.Rat).Quo(full, spanOf(l, 1)))
	if !n.IsInt64() {
		return weir.MaxCost
	}
	return min(n.Int64(), weir.MaxCost)
}

// at returns the bucket's whole as of now. One that is further ahead than it can
// be, because the clock went back, is brought down for good.
func (o *bucketOracle) at(now int64) *big.Rat {
	at := o.within(new(big.Rat).Set(o.whole), now)
	if at.Cmp(o.whole) < 0 {
		o.whole = new(big.Rat).Set(at)
	}
	return at
}

// within keeps x between now and its bound.
func (o *bucketOracle) within(x *big.Rat, now int64) *big.Rat {
	if n := ratOf(now); x.Cmp(n) < 0 {
		return n
	}
	latest := new(big.Rat).SetInt(new(big.Int).Add(o.bound, big.NewInt(now)))
	if x.Cmp(latest) > 0 {
		return latest
	}
	return x
}

func (o *bucketOracle) passes(now, cost int64) bool {
	if cost > o.most {
		return false
	}
	ahead := o.at(now)
	ahead.Add(ahead, spanOf(o.l, cost))
	return ahead.Sub(ahead, ratOf(now)).Cmp(o.full) <= 0
}

func (o *bucketOracle) charge(now, cost int64) {
	o.whole = o.within(new(big.Rat).Add(o.at(now), spanOf(o.l, cost)), now)
}

func (o *bucketOracle) giveBack(now, cost, receipt int64) {
	back := spanOf(o.l, cost)
	switch {
	case receipt < 0:
		// Less what has flowed in since the charge.
		if age := ratOf(now + receipt); age.Sign() > 0 {
			back.Sub(back, age)
		}
	case receipt > 0:
		// No more than was missing at most.
		if left := ratOf(receipt - now); left.Cmp(back) < 0 {
			back = left
		}
	}
	if back.Sign() <= 0 {
		return
	}
	at := o.at(now)
	if !o.meter && receipt != 0 {
		// Only the last in line may leave.
		if ceilRat(at).Int64() != receipt {
			return
		}
	}
	o.whole = o.within(at.Sub(at, back), now)
}

func (o *bucketOracle) untouched(now int64) bool { return o.whole.Cmp(ratOf(now)) <= 0 }

// checkDelay compares the wait of a request that was just queued.
func (o *bucketOracle) checkDelay(a weir.Ask, d weir.Decision) error {
	wait := new(big.Rat).Sub(o.at(a.Now), ratOf(a.Now))
	wait.Sub(wait, spanOf(o.l, a.Cost))
	wait.Sub(wait, new(big.Rat).SetInt(floorRat(spanOf(o.l, o.l.Free))))
	if wait.Sign() < 0 {
		wait.SetInt64(0)
	}
	off := wait.Sub(wait, ratOf(micros.Of(d.Delay(a.Cost))))
	if off.Abs(off).Cmp(ratOf(1)) >= 0 {
		return fmt.Errorf("delay %s is off by %s microseconds", d.Delay(a.Cost), off.FloatString(3))
	}
	return nil
}

func someMeter(a weir.Algorithm) func(r *rand.Rand) *weir.Limit {
	return func(r *rand.Rand) *weir.Limit {
		l := &weir.Limit{Algorithm: a, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
		if r.IntN(2) > 0 {
			l.Burst = someCount(r, weir.MaxCost)
		}
		return l
	}
}

func someQueue(r *rand.Rand) *weir.Limit {
	l := someMeter(algorithm.LeakyQueue)(r)
	if r.IntN(2) > 0 {
		l.MaxDelay = time.Duration(1+r.Int64N(int64(l.Period/time.Microsecond))) * time.Microsecond
	}
	if r.IntN(2) > 0 {
		l.Free = r.Int64N(10)
	}
	return l
}
