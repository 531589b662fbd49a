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
	return l.variant(count, period, burst, l.Mode)
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
	was := l
	if l.soft != nil {
		was = l.soft // the numbers below the excess
	}
	m := l.Mode
	m.Shadow, m.Rollout = percent == 0, percent
	return l.variant(was.Count, was.Period, was.Burst, m)
}

// variant returns the limit with other numbers and another mode.
func (l *Limit) variant(count int64, period time.Duration, burst int64, mode Mode) (*Limit, error) {
	if count < 1 || count > MaxCost {
		return nil, fmt.Errorf("limit %q: count %d must be between 1 and 2^53", l.Name, count)
	}
	was := l
	if l.soft != nil {
		was = l.soft // the numbers below the excess
	}
	v := &Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: count, Period: period, Burst: burst,
		Params: l.Params, Mode: mode, Settlement: l.Settlement, Consistency: l.Consistency, counters: l.counters}
	if period > 0 && v.Phase > 0 {
		v.Phase %= period
	}
	if v.Ceiling > 0 {
		v.Ceiling = max(scale(v.Ceiling, count, was.Count), count)
	}
	if v.Consistency.MaxOvershoot > 0 {
		v.Consistency.MaxOvershoot = scale(v.Consistency.MaxOvershoot, count, was.Count)
	}
	if v.Reserve != nil {
		most := count
		if burst > 0 {
			most = burst
		}
		v.Reserve = slices.Clone(v.Reserve)
		for i, r := range v.Reserve {
			v.Reserve[i] = scale(r, most, was.Burst)
		}
	}
	if b := l.Ban; b != nil {
		// Compile writes to it, and the limit's own is in use.
		v.Ban = &Limit{Name: b.Name, Algorithm: b.Algorithm, Count: b.Count, Period: b.Period, Burst: b.Burst,
			Params: b.Params, counters: b.counters}
	}
	if err := v.Compile(); err != nil {
		return nil, err
	}
	return v, nil
}

// scale returns n times to divided by from, rounded down and at most MaxCost.
func scale(n, to, from int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(to))
	if hi >= uint64(from) {
		return MaxCost
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return int64(min(q, MaxCost))
}

// Replace puts a variant of its limit in the place of the limit of ops[at], and in
// the ops that stand beside it for the limit's mode, as [Limit.Append] made them.
func Replace(ops []Op, at int, with *Limit) {
	o := &ops[at]
	if i := slices.Index(o.Limit.Reserve, o.Reserve); i >= 0 {
		o.Reserve = with.Reserve[i]
	}
	if o.Role == Own && at > 0 && with.ceiling != nil && ops[at-1].Limit == o.Limit.ceiling {
		ops[at-1].Limit = with.ceiling
	}
	if at > 0 && with.Ban != nil && ops[at-1].Limit == o.Limit.Ban {
		ops[at-1].Limit = with.Ban
	}
	if at+1 < len(ops) && with.soft != nil && ops[at+1].Limit == o.Limit.soft {
		ops[at+1].Limit = with.soft
	}
	o.Limit = with
}

// Beside returns where the ops begin and end that stand for one limit, that of
// ops[at], as [Limit.Append] made them: its ban, its ceiling, itself, its lower
// threshold or its pool.
func Beside(ops []Op, at int) (from, to int) {
	l := ops[at].Limit
	from, to = at, at+1
	if from > 0 && l.ceiling != nil && ops[from-1].Limit == l.ceiling {
		from--
	}
	if from > 0 && l.Ban != nil && ops[from-1].Limit == l.Ban {
		from--
	}
	if to < len(ops) && (l.soft != nil && ops[to].Limit == l.soft || ops[at].Role == Own && ops[to].Role == Pool) {
		to++
	}
	return from, to
}
