package resp

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// databases is how many SELECT knows. Keys of one are not those of another.
const databases = 16

// numbers are the limit that a CL.THROTTLE names, and the database.
type numbers struct {
	db                   int64
	burst, count, period int64 // max_burst, count per period, seconds
}

// A numbered is the limit of numbers, and what its replies begin with. It is
// immutable.
type numbered struct {
	numbers
	limit *weir.Limit
	// full is how long the whole burst takes to flow back, in nanoseconds, rounded
	// up to the microsecond.
	full time.Duration
	// allowed and refused are a reply up to its third number.
	allowed, refused []byte
}

// limits are those that calls have named, as many as fit: whoever names one that
// was displaced has it made anew, and its keys are what they were, because their
// state does not depend on the limit that it is seen by.
//
// Safe for concurrent use, without a lock.
type limits struct {
	seed maphash.Seed
	// base is by database: every limit counts on its counters and shares its
	// keys.
	base [databases]*weir.Limit
	// unkept is why the store can keep none of them, nil if it can.
	unkept error
	kept   [1024]atomic.Pointer[numbered]
}

// throttleName is what all limits of CL.THROTTLE are called in metrics.
const throttleName = "CL.THROTTLE"

func (ls *limits) compileBase(check func(*weir.Limit) error) error {
	ls.seed = maphash.MakeSeed()
	for db := range ls.base {
		scope := "cl.throttle"
		if db > 0 {
			scope = fmt.Sprintf("cl.throttle/%d", db)
		}
		l := &weir.Limit{Name: throttleName, Scope: scope, Algorithm: algorithm.Throttle, Count: 1, Period: time.Second, Burst: 1,
			Consistency: params.Consistency{Mode: params.ConsistencyStrict}}
		if db > 0 {
			l.Inherit(ls.base[0])
		}
		if err := l.Compile(); err != nil {
			return err
		}
		ls.base[db] = l
	}
	if check != nil {
		ls.unkept = check(ls.base[0])
	}
	return nil
}

// limitFor returns the limit of n.
func (ls *limits) limitFor(n numbers) (*numbered, error) {
	h := maphash.Comparable(ls.seed, n)
	first, second := &ls.kept[h%uint64(len(ls.kept))], &ls.kept[h>>32%uint64(len(ls.kept))]
	if l := first.Load(); l != nil && l.numbers == n {
		return l, nil
	}
	if l := second.Load(); l != nil && l.numbers == n {
		return l, nil
	}
	l, err := ls.makeLimit(n)
	if err != nil {
		return nil, err
	}
	if first.Load() != nil {
		// Of two that a flood of others displaces, one stays a while.
		first = second
	}
	first.Store(l)
	return l, nil
}

// Bounds of the numbers. The limit is max_burst + 1, which must stay below what
// any request can cost.
const (
	maxThrottleBurst  = weir.MaxCost - 2
	maxThrottlePeriod = int64(weir.MaxPeriod / time.Second)
)

// makeLimit returns a new limit of n, or why there can be none in the words of a
// reply.
func (ls *limits) makeLimit(n numbers) (*numbered, error) {
	outside := func(what string, got, least, most int64) error {
		return cellError(fmt.Sprintf("%s %d must be between %d and %d", what, got, least, most))
	}
	switch {
	case ls.unkept != nil:
		return nil, cellError("CL.THROTTLE needs a store that keeps a token bucket: " + ls.unkept.Error())
	case n.count == 0 || n.period == 0:
		return nil, cellError("Zero rates are not supported")
	case n.burst < 0 || n.burst > maxThrottleBurst:
		return nil, outside("max_burst", n.burst, 0, maxThrottleBurst)
	case n.count < 0 || n.count > weir.MaxCost:
		return nil, outside("count per period", n.count, 1, weir.MaxCost)
	case n.period < 0 || n.period > maxThrottlePeriod:
		return nil, outside("period", n.period, 1, maxThrottlePeriod)
	}
	base := ls.base[n.db]
	l := &weir.Limit{Name: throttleName, Scope: base.Scope, Algorithm: base.Algorithm, Consistency: base.Consistency,
		Count: n.count, Period: time.Duration(n.period) * time.Second, Burst: n.burst + 1}
	l.Inherit(base)
	if err := l.Compile(); err != nil {
		if reason := errors.Unwrap(err); reason != nil {
			err = reason // without the limit's name, which says nothing here
		}
		return nil, cellError(err.Error())
	}
	d := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Cost: l.Burst})
	return &numbered{numbers: n, limit: l, full: d.ResetAfter,
		allowed: appendInt(append(appendArray(nil, 5), ":0\r\n"...), l.Burst),
		refused: appendInt(append(appendArray(nil, 5), ":1\r\n"...), l.Burst),
	}, nil
}

// A cellError is an error in redis-cell's words.
type cellError string

// Error implements error.
func (e cellError) Error() string { return "Cell error: Store error: " + string(e) }
