package weir

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Variant returns the limit with other numbers and everything else as it is: the
// same algorithm, mode, counters and place. So a key that goes from one to the
// other keeps what it has spent as it does when a limit is changed. Zero burst
// means count. What the limit keeps for priorities, its ceiling and its
// overshoot stay the same share of it.
//
// The limit must be compiled; the variant is.
func (l *Limit) Variant(count int64, period time.Duration, burst int64) (*Limit, error) {
	return makeVariant(l, count, period, burst, l.Mode)
}

// Enforced returns the limit enforced for percent of its keys, as Mode.Rollout
// does, and a shadow for the others; for none of them with percent 0. Everything
// else is as it is, with the same counters and state, so that nobody's count
// starts afresh.
//
// The limit must be compiled; what is returned is.
func (l *Limit) Enforced(percent int64) (*Limit, error) {
	if percent < 0 || percent > 100 {
		return nil, fmt.Errorf("limit %q: %d%% must be between 0 and 100", l.Name, percent)
	}
	was := l.Clone()
	m := l.Mode
	m.Shadow, m.Rollout = percent == 0, percent
	return makeVariant(l, was.Count, was.Period, was.Burst, m)
}

// makeVariant returns l with other numbers and another mode.
func makeVariant(l *Limit, count int64, period time.Duration, burst int64, mode Mode) (*Limit, error) {
	if count < 1 || count > MaxCost {
		return nil, fmt.Errorf("limit %q: count %d must be between 1 and 2^53", l.Name, count)
	}
	v := l.Clone()
	was := *v
	v.Count, v.Period, v.Burst, v.Mode, v.Bans = count, period, burst, mode, false
	if period > 0 && v.Phase > 0 {
		v.Phase %= period
	}
	if v.Ceiling > 0 {
		v.Ceiling = max(scaleUnits(v.Ceiling, count, was.Count), count)
	}
	if v.Consistency.MaxOvershoot > 0 {
		v.Consistency.MaxOvershoot = scaleUnits(v.Consistency.MaxOvershoot, count, was.Count)
	}
	if v.Headroom != nil {
		most := count
		if burst > 0 {
			most = burst
		}
		v.Headroom = slices.Clone(v.Headroom)
		for i, r := range v.Headroom {
			v.Headroom[i] = scaleUnits(r, most, was.Burst)
		}
	}
	if b := l.Ban; b != nil {
		// Compile writes to it, and the limit's own is in use.
		v.Ban = b.Clone()
	}
	if err := v.Compile(); err != nil {
		return nil, err
	}
	return v, nil
}

// Part returns the limit that carries out p for l, nil if l has no such part.
func (l *Limit) Part(p Part) *Limit {
	return [...]*Limit{PartLimit: l, PartBan: l.Ban, PartCeiling: l.ceiling, PartThreshold: l.soft, PartPool: l.Pool}[p]
}

// scaleUnits returns n times to divided by from, rounded down and at most MaxCost.
func scaleUnits(n, to, from int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(to))
	if hi >= uint64(from) {
		return MaxCost
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return int64(min(q, MaxCost))
}
