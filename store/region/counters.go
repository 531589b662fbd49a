package region

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

const (
	// counterMax is the count of a counter that only grows: more units than are spent of
	// a key in an epoch.
	counterMax = 1 << 50
	// bucketEpoch is the shortest epoch in which the units of a bucket are counted.
	bucketEpoch = time.Hour
)

// regional is how a limit is counted that regions hold together. See the package comment.
type regional struct {
	region string
	limit  *weir.Limit
	cap    int64
	// length is how long an epoch is, in microseconds; 0: as long as the windows of
	// the limit.
	length   int64
	interval int64 // between two pushes, microseconds
	// turn is had by one node of the region at a time, to report; urgentTurn is a shorter
	// one, for when others must know at once.
	turn, urgentTurn *weir.Limit
	// most is the limit with all that it may be overshot by, on the same counters;
	// nil if such a limit would have counters of its own.
	most *weir.Limit

	mu     sync.Mutex
	epochs map[int64]*epochCounters
	now    atomic.Pointer[epochCounters]
}

// epochCounters are the counters of one epoch.
type epochCounters struct {
	// since is when the epoch was first seen, the earliest that is known, and end is
	// when it ends, by the store's clock.
	since atomic.Int64
	end   int64
	// own is what the region has admitted, on its own store; reported what every other
	// region has acknowledged of it, and sent what is on its way to them; copy what one
	// knows of it, on that one's store.
	own, reported, sent, copy *weir.Limit
	// window: the units count in this window of the limit and in no other.
	window bool
}

func newRegional(l *weir.Limit, region string, regions int) (*regional, error) {
	r := &regional{region: region, limit: l, cap: capOf(l, regions), epochs: map[int64]*epochCounters{}}
	r.interval = micros.Of(l.Consistency.SyncInterval)
	if r.interval == 0 {
		r.interval = 100_000
	}
	switch l.Algorithm {
	case algorithm.FixedWindow:
	case algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows:
		r.length = micros.Of(l.Period)
	default:
		// What a bucket has admitted counts until it has flowed back.
		r.length = micros.Of(bucketEpoch)
		if hi, lo := bits.Mul64(uint64(l.Burst), uint64(micros.Of(l.Period))); hi < uint64(l.Count) {
			q, _ := bits.Div64(hi, lo, uint64(l.Count))
			r.length = max(r.length, int64(min(q, uint64(micros.Of(weir.MaxPeriod/2)))))
		}
	}
	turn := func(every int64) *weir.Limit {
		return &weir.Limit{
			Name: l.Name + " turn", Scope: fmt.Sprintf("%s\x1fturn %d", l.Scope, every), Algorithm: algorithm.FixedWindow, Count: 1,
			Period: micros.Duration(every), Params: params.Params{Anchor: params.AnchorFirst},
		}
	}
	r.turn, r.urgentTurn = turn(r.interval), turn(max(r.interval/8, 1000))
	r.most = raised(l)
	return r, errors.Join(r.turn.Compile(), r.urgentTurn.Compile())
}

// raised returns l with all that it may be overshot by, on the same counters, or nil.
func raised(l *weir.Limit) *weir.Limit {
	most := &weir.Limit{
		Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Burst: l.Burst + l.Overshoot(), Params: l.Params,
	}
	if l.Algorithm != algorithm.TokenBucket && l.Algorithm != algorithm.LeakyBucket {
		most.Count, most.Burst = l.Count+l.Overshoot(), 0
	}
	if err := most.Compile(); err != nil || most.ID() != l.ID() {
		return nil
	}
	return most
}

// retry returns when a cost can pass that was refused until other regions know more: one
// above what they need not know never does.
func (r *regional) retry(cost int64) time.Duration {
	if cost > r.cap {
		return weir.Never
	}
	return micros.Duration(r.interval)
}

// epoch returns the counters of the epoch at now, by the store's clock.
func (r *regional) epoch(now int64) (*epochCounters, error) {
	if c := r.now.Load(); c != nil && now >= c.since.Load() && now < c.end {
		return c, nil
	}
	end := int64(0)
	if r.length > 0 {
		end = now - now%r.length + r.length
	} else {
		// What a first spend would get.
		d := r.limit.Algorithm.Step(make([]int64, r.limit.Cells), r.limit, weir.Ask{Now: now, Cost: 1})
		end = now + micros.Of(d.ResetAfter)
	}
	c, err := r.ending(end, now)
	if err == nil {
		r.now.Store(c)
	}
	return c, err
}

// ending returns the counters of the epoch that ends at end.
func (r *regional) ending(end, now int64) (*epochCounters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.epochs[end]; c != nil {
		c.since.Store(min(c.since.Load(), now))
		return c, nil
	}
	life := min(2*max(r.length, micros.Of(r.limit.Period)), micros.Of(weir.MaxPeriod))
	counter := func(what string) *weir.Limit {
		return &weir.Limit{
			Name: r.limit.Name + " regions", Scope: fmt.Sprintf("%s\x1f%s %d", r.limit.Scope, what, end), Algorithm: algorithm.FixedWindow,
			Count: counterMax, Period: micros.Duration(life), Params: params.Params{Anchor: params.AnchorFirst},
		}
	}
	c := &epochCounters{end: end, window: r.length == 0, own: counter("own"), reported: counter("told"), sent: counter("sent"), copy: counter("of " + r.region)}
	c.since.Store(now)
	if err := errors.Join(c.own.Compile(), c.reported.Compile(), c.sent.Compile(), c.copy.Compile()); err != nil {
		return nil, err
	}
	for old := range r.epochs {
		if old < end-2*life {
			delete(r.epochs, old)
		}
	}
	r.epochs[end] = c
	return c, nil
}

// epochOf returns the counters in which the units of a refund were counted, nil if that
// is not known: the region's counter keeps them. A window is named by its end.
func (r *regional) epochOf(o *weir.Op, now int64) (*epochCounters, error) {
	switch {
	case r.length == 0 && o.ID != 0:
		return r.ending(o.ID, now)
	case r.length > 0 && o.ChargedAt > 0:
		return r.ending(o.ChargedAt-o.ChargedAt%r.length+r.length, now)
	case r.length == 0:
		return r.epoch(now)
	}
	return nil, nil
}
