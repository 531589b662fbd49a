package tier

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A link is the queue of calls before a store, and the node's time.
//
// Safe for concurrent use.
type link struct {
	*transport.Queue
	store weir.Store
	meter *lateness.Meter // nil of other regions
	base  time.Time
	told  func() int64
	// slept is for how long the monotonic clock stood still, ahead how far the wall
	// clock was ahead of it when they were compared, at watched. resumed is told when
	// slept grows; it must not wait.
	slept, watched atomic.Int64
	watching       sync.Mutex
	ahead          int64
	resumed        func()
	// opened is told when the breaker opens, closed when it closes. probe finds out by
	// ask whether the store answers.
	opened func(error)
	closed func()
	probe  func(ask func([]weir.Op) error) error
}

// Bounds of what waits for a store: so many calls, so many of one key.
const maxWaiting, maxWaitingForKey = 16_384, 4096

func newLink(store weir.Store, opt *Options) *link {
	k := &link{store: store, base: time.Now(), told: opt.Now, meter: opt.meter}
	k.ahead = k.base.UnixMicro() - k.ticked()
	o := transport.Options{
		Budget: opt.Timeout, Timeout: max(opt.Timeout, leastTimeout), Workers: opt.MaxInFlight, Batch: 1, Waiting: maxWaiting, PerKey: maxWaitingForKey,
		ProbeEvery: opt.ProbeEvery, Seed: rand.Uint64(), SelfBounded: opt.Prompt,
		Opened: func(_ int, err error) { k.opened(err) },
		Closed: func(int) { k.closed() },
	}
	driver := transport.Over(store, &o, func(ask func([]weir.Op) error) error { return k.probe(ask) })
	k.Queue = transport.New(driver, transport.NewEnv(func() clock.Node { return clock.Node(k.now()) }, k.meter), o)
	return k
}

// leastTimeout is the least timeout of calls that no decision waits for: longer than a
// healthy store stalls, and short enough that what has no answer is returned within a
// second.
const leastTimeout = 750 * time.Millisecond

// now returns the node's time in microseconds: a monotonic clock's, and what that
// stood still for while the machine was suspended.
func (k *link) now() int64 {
	t := k.ticked()
	if t-k.watched.Load() >= watchEvery {
		k.watchTime()
	}
	return t + k.slept.Load()
}

// ticked is the node's monotonic time.
func (k *link) ticked() int64 {
	if k.told != nil {
		return k.told()
	}
	return int64(time.Since(k.base) / time.Microsecond)
}

const (
	// watchEvery is how often the wall clock is looked at, in microseconds of the
	// monotonic one: so much is decided late at most after a machine was suspended.
	watchEvery = 100
	// leastSleep is by how much more the wall clock must have moved than the monotonic
	// one, which stands still while a machine is suspended. A clock that a test sets
	// stands still while the test works.
	leastSleep, leastSleepTold = 100_000, 1_000_000
)

// watchTime looks whether the monotonic clock stood still while time passed. If so the
// node's time goes on by that: what it holds ends when it would have ended. A wall
// clock that was set forward ends it too early, which costs units and admits none.
func (k *link) watchTime() {
	if !k.watching.TryLock() {
		return // another looks
	}
	defer k.watching.Unlock()
	wall := time.Now()
	t, least := int64(wall.Sub(k.base)/time.Microsecond), int64(leastSleep)
	if k.told != nil {
		t, least = k.told(), leastSleepTold
	}
	ahead := wall.UnixMicro() - t
	switch over := ahead - k.ahead; {
	case over >= least:
		k.ahead = ahead
		k.slept.Add(over)
		if k.resumed != nil {
			k.resumed()
		}
	case over < 0 && k.told == nil:
		k.ahead = ahead // the wall clock was set back
	}
	k.watched.Store(t)
}

// take decides ops on the shared store. It returns the node's time at which they
// were sent.
func (k *link) take(ctx context.Context, ops []weir.Op) (int64, error) {
	sent, err := k.Do(ctx, ops)
	return int64(sent), err
}

// takeLater is take for a call that no decision waits for.
func (k *link) takeLater(ops []weir.Op) (int64, error) {
	sent, err := k.Later(ops)
	return int64(sent), err
}

// spend spends cost of key under l on the shared store. It returns the store's time,
// and the node's at which the spend was sent.
func (k *link) spend(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, int64, int64, error) {
	ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
	sent, err := k.take(ctx, ops)
	return ops[0].Decision, ops[0].Now, sent, err
}

// partial reports whether err is about a part of the store, of which it has others.
func partial(err error) bool {
	var p interface{ Partial() bool }
	return errors.As(err, &p) && p.Partial()
}

// wrong reports whether err is about what was asked, and not about the store.
func wrong(err error) bool {
	return errors.Is(err, weir.ErrCost) || errors.Is(err, weir.ErrNoLease) || errors.Is(err, weir.ErrRefund) ||
		errors.Is(err, weir.ErrClosed)
}
