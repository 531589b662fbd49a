package rls

import (
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Units of envoy.type.v3.RateLimitUnit, and of RateLimitResponse.RateLimit.Unit,
// which has the same numbers. A month has 30 days and a year 365, as in Envoy's
// own service.
const (
	unknown = iota
	second
	minute
	hour
	day
	month
	year
	week
)

var units = [...]time.Duration{
	second: time.Second, minute: time.Minute, hour: time.Hour, day: 24 * time.Hour,
	week: 7 * 24 * time.Hour, month: 30 * 24 * time.Hour, year: 365 * 24 * time.Hour,
}

// bySize are the units, the longest first.
var bySize = [...]uint32{year, month, week, day, hour, minute, second}

// unitOf returns the period of l as so many times the longest unit that divides
// it. The unit is unknown where there is none: parts of a second, and limits on
// what is under way at once.
func unitOf(l *weir.Limit) (unit, times uint32) {
	if l.Traits()&weir.Leases != 0 {
		return unknown, 0
	}
	for _, u := range bySize {
		if l.Period%units[u] == 0 {
			return u, uint32(l.Period / units[u])
		}
	}
	return unknown, 0
}

// statedPeriod returns the period that o states, or what is wrong with it.
func (o *override) statedPeriod() (time.Duration, error) {
	if o.unit == unknown || o.unit >= uint32(len(units)) {
		return 0, fmt.Errorf("unit %d of its limit is not one of 1 (second) to %d (week)", int32(o.unit), len(units)-1)
	}
	times := o.times
	if !o.hasTimes {
		times = 1
	}
	p := units[o.unit]
	if times == 0 || int64(times) > int64(weir.MaxPeriod/p) {
		return 0, fmt.Errorf("unit_multiplier %d of its limit must be at least 1, and the period at most ten years", times)
	}
	return p * time.Duration(times), nil
}

// overrides keeps the limits that came with descriptors, so that they are not
// made anew for each call. Safe for concurrent use.
type overrides struct {
	mu     sync.RWMutex
	limits map[overrideKey]*weir.Limit
}

type overrideKey struct {
	count  uint32
	period time.Duration
}

// maxOverrides is how many limits are kept; when there are more all are made
// anew. Their counters are not theirs: they are in the store.
const maxOverrides = 4096

// limitFor returns the limit of count per period. Limits of one period share the
// counters of equal keys, so that whoever chooses the numbers cannot start
// afresh by choosing others; hence fixed windows, whose state does not depend on
// the count.
func (o *overrides) limitFor(count uint32, period time.Duration) (*weir.Limit, error) {
	k := overrideKey{count, period}
	o.mu.RLock()
	l := o.limits[k]
	o.mu.RUnlock()
	if l != nil {
		return l, nil
	}
	l = &weir.Limit{Scope: "\x1frls\x1f" + period.String(), Algorithm: algorithm.FixedWindow,
		// One that allows nothing is asked for more than it holds.
		Count: max(int64(count), 1), Period: period}
	if err := l.Compile(); err != nil {
		return nil, err
	}
	if count == 0 {
		l.Name = "0" + l.Name[1:]
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.limits == nil || len(o.limits) >= maxOverrides {
		o.limits = make(map[overrideKey]*weir.Limit)
	}
	o.limits[k] = l
	return l, nil
}
