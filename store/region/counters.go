package region

import (
	"cmp"
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
	"github.com/weirlimit/weir/store/internal/lot"
)

const (
	// counterMax is the count of a counter that only grows: more units than are spent of
	// a key in an epoch.
	counterMax = 1 << 50
	// moment is more than a request takes, in microseconds.
	moment = 10_000_000
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
	most             *weir.Limit // see lot.RaisedByOvershoot

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
	r := &regional{
		region: region, limit: l, cap: capOf(l, regions), epochs: map[int64]*epochCounters{}, interval: cmp.Or(micros.Of(l.Consistency.SyncInterval), 100_000),
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
	var err, urgentErr error
	r.turn, err = newCounter(l, " turn", fmt.Sprint("turn ", r.interval), 1, r.interval)
	urgent := max(r.interval/8, 1000)
	r.urgentTurn, urgentErr = newCounter(l, " turn", fmt.Sprint("turn ", urgent), 1, urgent)
	r.most = lot.RaisedByOvershoot(l)
	return r, errors.Join(err, urgentErr)
}

// newCounter returns a limit of the key of l that counts in windows that begin with their
// first unit.
func newCounter(l *weir.Limit, name, scope string, count, period int64) (*weir.Limit, error) {
	return lot.Variant(l, func(v *weir.Limit) {
		v.Name, v.Scope, v.Algorithm, v.Count = l.Name+name, l.Scope+"\x1f"+scope, algorithm.FixedWindow, count
		v.Period, v.Params = micros.Duration(period), params.Params{Anchor: params.AnchorFirst}
	})
}

// retryAfter returns when a cost can pass that was refused until other regions know more: one
// above what they need not know never does.
func (r *regional) retryAfter(cost int64) time.Duration {
	if cost > r.cap {
		return weir.Never
	}
	return micros.Duration(r.interval)
}

// epochAt returns the counters of the epoch at now, by the store's clock.
func (r *regional) epochAt(now int64) (*epochCounters, error) {
	if c := r.now.Load(); c != nil && now >= c.since.Load() && now < c.end {
		return c, nil
	}
	end := r.epochEnd(now)
	if r.length == 0 {
		end = lot.ReceiptAt(r.limit, now)
	}
	c, err := r.epochEnding(end, now)
	if err == nil {
		r.now.Store(c)
	}
	return c, err
}

// epochEnding returns the counters of the epoch that ends at end.
func (r *regional) epochEnding(end, now int64) (*epochCounters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.epochs[end]; c != nil {
		c.since.Store(min(c.since.Load(), now))
		return c, nil
	}
	life := min(2*max(r.length, micros.Of(r.limit.Period)), micros.Of(weir.MaxPeriod))
	c := &epochCounters{end: end, window: r.length == 0}
	c.since.Store(now)
	for what, to := range map[string]**weir.Limit{"own": &c.own, "told": &c.reported, "sent": &c.sent, "of " + r.region: &c.copy} {
		var err error
		if *to, err = newCounter(r.limit, " regions", fmt.Sprint(what, " ", end), counterMax, life); err != nil {
			return nil, err
		}
	}
	for old := range r.epochs {
		if old < end-2*life {
			delete(r.epochs, old)
		}
	}
	r.epochs[end] = c
	return c, nil
}

// epochEnd returns the end of the epoch at now, where it is no window of the limit.
func (r *regional) epochEnd(now int64) int64 { return now - now%max(r.length, 1) + r.length }

// epochOf returns the counters in which the units of a refund were counted, nil if that
// is not known: the region's counter keeps them. A window is named by its end, and what was
// charged a moment ago is of the epoch at now, unless that has just begun.
func (r *regional) epochOf(o *weir.Op, now int64, undoes bool) (*epochCounters, error) {
	switch {
	case r.length == 0 && o.ID != 0:
		return r.epochEnding(o.ID, now)
	case r.length > 0 && o.FlowsFrom > 0:
		return r.epochEnding(r.epochEnd(o.FlowsFrom), now)
	case r.length == 0, undoes && r.epochEnd(now) == r.epochEnd(now-moment):
		return r.epochAt(now)
	}
	return nil, nil
}
