package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
)

// figures are what a number of users costs.
type figures struct {
	Users int
	// Heap is bytes per user, the store itself included.
	Heap float64
	// One and Both are decisions of users drawn at random, on one processor and
	// on all: the best of several rounds, for capacity is what there is when
	// nothing else runs.
	One, Both measure.Round
}

// question asks a worker for figures.
type question struct {
	Round  time.Duration // how long to decide, each time
	Rounds int
}

// slowClock runs at a thousandth of the speed of time, so that all users stay
// active together however long it takes to fill them in. Reading it costs what
// reading the store's own clock costs.
type slowClock struct {
	began time.Time
	epoch int64 // microseconds since the Unix epoch
	ahead atomic.Int64
}

func newSlowClock() *slowClock {
	now := time.Now()
	return &slowClock{began: now, epoch: now.UnixMicro()}
}

func (c *slowClock) now() int64 {
	return c.epoch + c.ahead.Load() + int64(time.Since(c.began)/time.Microsecond)/1000
}

// jump sets the clock ahead.
func (c *slowClock) jump(d time.Duration) { c.ahead.Add(d.Microseconds()) }

// asker decides for a user of a number. buf is the caller's, for the key.
type asker func(buf []byte, i int) bool

// takes asks by Limiter.Take.
func takes(l *weir.Limiter) asker {
	allow := ours.Allow(l)
	return func(buf []byte, i int) bool {
		buf = load.AppendKey(buf[:0], i)
		// The store keeps no key, see weir.Store.
		return allow(unsafe.String(unsafe.SliceData(buf), len(buf)))
	}
}

// leaseTaker takes a lease of the given name for a user, and gives it back at
// once unless it is to be held.
func leaseTaker(l *weir.Limiter, name string, held bool) asker {
	ctx := context.Background()
	return func(buf []byte, i int) bool {
		r := l.Acquire()
		defer l.Recycle(r)
		r.Lease = name
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: load.Key(i)}}})
		d, err := l.Decide(ctx, r)
		if err != nil || !d.Allowed() {
			return false
		}
		if held {
			return true
		}
		released, err := l.Release(ctx, r)
		return released && err == nil
	}
}

// measureUsers fills a store with n users of a kind.
func measureUsers(u user, n int, q question) (figures, error) {
	empty := measure.Heap()
	clock := newSlowClock()
	opt := ours.Roomy()
	opt.Now = clock.now
	limit := u.make(n)
	limiter, done, err := ours.Open(weir.Limits{limit}, opt)
	if err != nil {
		return figures{}, err
	}
	defer done()
	spend, ask := takes(limiter), takes(limiter)
	if u.leases() {
		spend, ask = leaseTaker(limiter, "held", true), leaseTaker(limiter, "passing", false)
	}
	if err := fill(u, n, spend, clock, limit.Period); err != nil {
		// A store that cannot answer says why when it is only asked to look.
		_, why := limiter.Take(context.Background(), load.Key(0), 0)
		return figures{}, errors.Join(err, why)
	}
	f := figures{Users: n, Heap: float64(measure.Heap()-empty) / float64(n)}
	if u.units > 1 {
		// The first half of a full log is over now, and makes room.
		clock.jump(limit.Period/2 + time.Second)
	}
	most := int64(n) * room(u, limit)
	if f.One, err = rate(ask, 1, n, q, most/2); err != nil {
		return f, fmt.Errorf("%s: %w", u.name(), err)
	}
	if f.Both, err = rate(ask, runtime.NumCPU(), n, q, most/2); err != nil {
		return f, fmt.Errorf("%s: %w", u.name(), err)
	}
	runtime.KeepAlive(limiter)
	return f, nil
}

// fill spends u.units of every user.
func fill(u user, n int, spend asker, clock *slowClock, period time.Duration) error {
	buf := make([]byte, 0, 32)
	for unit := range u.units {
		if unit > 0 && unit == u.units/2 {
			clock.jump(period / 2)
		}
		for i := range n {
			if !spend(buf, i) {
				return fmt.Errorf("%s: unit %d of user %s was refused", u.name(), unit+1, strconv.Itoa(i))
			}
		}
	}
	return nil
}

// room is how many units more each user can surely spend.
func room(u user, limit *weir.Limit) int64 {
	switch {
	case u.leases():
		return 1 << 30 // given back at once
	case u.units > 1:
		return int64(u.units / 2)
	}
	return max(limit.Count, limit.Burst) - int64(u.units)
}

// drawing returns work that asks for users drawn at random out of n, and goes on
// where its last round ended.
func drawing(ask asker, procs, n int) measure.Work {
	type state struct {
		x   uint64
		buf []byte
		_   [96]byte // two processors must not share a cache line
	}
	states := make([]state, procs)
	for p := range states {
		states[p] = state{x: uint64(p+1) * 0x9e3779b97f4a7c15, buf: make([]byte, 0, 64)}
	}
	return func(p int, ops int64) (refused int64) {
		x, buf := states[p].x, states[p].buf
		for range ops {
			// xorshift64: Marsaglia 2003.
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			if !ask(buf, int(x>>11%uint64(n))) {
				refused++
			}
		}
		states[p].x = x
		return refused
	}
}

// rate measures decisions of users drawn at random. All rounds together spend
// an eighth of most, the units that are left to all users, as some users come
// more often than others.
func rate(ask asker, procs, n int, q question, most int64) (measure.Round, error) {
	work := drawing(ask, procs, n)
	const probe = 20_000
	first := measure.Run(procs, min(probe, most/64), work)
	ops := min(int64(float64(q.Round)/first.Wall), most/8/int64(q.Rounds))
	var best measure.Round
	for i := range q.Rounds {
		r := measure.Run(procs, max(ops, 1), work)
		// A few users come more often than their limit allows; what little is
		// refused is a decision too.
		if r.Refused > r.Ops/20 {
			return r, fmt.Errorf("%d of %d decisions were refused: nothing is measured", r.Refused, r.Ops)
		}
		if i == 0 || r.CPU < best.CPU {
			best.CPU = r.CPU
		}
		if i == 0 || r.Wall < best.Wall {
			best.Wall = r.Wall
		}
		best.Ops += r.Ops
		best.Refused += r.Refused
	}
	return best, nil
}
