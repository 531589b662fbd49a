package weir

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/weirlimit/weir/params"
)

// checkConsistency returns what is wrong with the consistency of l.
func (l *Limit) checkConsistency() error {
	c := &l.Consistency
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("limit %q: "+format, append([]any{l.Name}, args...)...))
	}
	t := l.Algorithm.Traits()
	switch {
	case c.Mode > params.ConsistencyLocal:
		bad("consistency %s is not known", c.Mode)
	case c.Mode == params.ConsistencyLeased && t&(Lends|Leases) == 0:
		bad("units of %s cannot be fetched ahead: use strict or local consistency, or another algorithm", l.Algorithm.Name())
	case c.Mode == params.ConsistencyEventual && t&Lends == 0:
		bad("units of %s cannot be told later: use strict or local consistency, or another algorithm", l.Algorithm.Name())
	case c.Mode == params.ConsistencyEventual && l.Anchor == params.AnchorFirst:
		bad("windows that begin with the first request begin differently on each node: use leased or strict consistency, or windows from the epoch")
	}
	if c.LeaseTTL < 0 || c.SyncInterval < 0 || c.MaxOvershoot < 0 || c.Share < 0 {
		bad("lease ttl %s, sync interval %s, overshoot %d and share %d must not be negative", c.LeaseTTL, c.SyncInterval, c.MaxOvershoot, c.Share)
	}
	if c.MaxOvershoot > MaxCost || c.Share > 1000 {
		bad("overshoot %d must be at most 2^53 and share %d at most 1000", c.MaxOvershoot, c.Share)
	}
	if c.OnStoreError > params.OnErrorLastKnown || c.DenyCache > params.DenyCacheOff {
		bad("policy %s or deny cache %s is not known", c.OnStoreError, c.DenyCache)
	}
	return errors.Join(errs...)
}

// Overshoot returns how many units too many eventual consistency may admit.
func (l *Limit) Overshoot() int64 {
	if n := l.Consistency.MaxOvershoot; n > 0 {
		return n
	}
	return max(l.Count/20, 1)
}

// LeaseTTL returns how long units of l that were fetched ahead may be spent, in
// whole microseconds.
func (l *Limit) LeaseTTL() time.Duration {
	refill := l.refillTime()
	ttl := l.Consistency.LeaseTTL
	if ttl == 0 {
		most := time.Second
		if l.Traits()&Leases == 0 {
			// Of keys that come seldom units should be there when they come again.
			most = max(most, min(l.Period, refill)/100)
		}
		ttl = min(most, l.Period/20, refill/10, time.Minute)
	}
	return min(ttl, refill/2).Truncate(time.Microsecond)
}

// Inflow returns how many units of l flow back during its lease TTL, rounded up.
func (l *Limit) Inflow() int64 {
	hi, lo := bits.Mul64(uint64(l.Count), uint64(l.LeaseTTL()))
	q, r := bits.Div64(hi, lo, uint64(l.Period))
	if r > 0 {
		q++
	}
	return int64(q)
}

// refillTime returns how long Burst units take to flow back.
func (l *Limit) refillTime() time.Duration {
	hi, lo := bits.Mul64(uint64(l.Burst), uint64(l.Period))
	if hi >= uint64(l.Count) {
		return Forever
	}
	q, _ := bits.Div64(hi, lo, uint64(l.Count))
	return time.Duration(min(q, uint64(Forever)))
}
