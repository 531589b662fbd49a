// Package clock holds the two times of a node that shares a store, and the only
// conversion between them.
//
// A node cannot read the store's clock: it learns it from answers. An answer reports
// the store's time at some instant between sending the call and receiving the answer,
// which bounds how far the store is ahead:
//
//	node   ----- sent -------------- received ----->
//	                 \              /
//	store  ----------- reported ------------------->
//
//	reported - received  <=  store - node  <=  reported - sent
//
// The node's own clock is monotonic, and a monotonic clock stands still while the
// machine is suspended, or the virtual machine paused. Units whose time was over
// meanwhile would then be spent late. So two witnesses are asked whether time was lost:
// the wall clock, whenever a millisecond of node time has passed, and each answer of
// the store. Where one of them has moved 100 ms further than the node, the node's time
// goes on by as much, and all that goes by it ends when it would have ended. A wall
// clock that is set forward ends it too early, which costs units and admits none; what
// others have, and must not end too early, goes by [Clock.Elapsed].
//
// What neither witness notices is left to the margin of [Node.Expiry]: the clocks of
// both sides may drift, and be slewed, by 500 ppm each, and stand still together for
// less than 100 ms. A wall clock that is set back while the machine is suspended hides as
// much of that, until the store answers.
package clock

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Node is an instant of a node's time in microseconds. It begins near zero when the
// clock is made, never goes back, and means nothing to another node.
type Node int64

// Store is an instant of the shared store's time in microseconds since 1970.
type Store int64

// Never is later than every other instant of a node.
const Never Node = math.MaxInt64

// Add returns the instant us microseconds after t, below Never. us is not negative.
func (t Node) Add(us int64) Node {
	return t + min(Node(us), Never-1-max(t, 0))
}

// Expiry returns the instant at which what lives for life microseconds from t on, by
// the clock of the store, has ended to the node: a 512th early, whichever clock drifts.
func (t Node) Expiry(life int64) Node { return t.Add(max(life-life/512-1, 0)) }

// ExpiryAt returns the instant at which what ends at end has ended to the node, where
// the store's time was reported in the answer to a call that was sent at t.
func (t Node) ExpiryAt(reported, end Store) Node { return t.Expiry(int64(end - reported)) }

const (
	watchEvery = 1_000   // microseconds of node time between two looks at the wall clock
	leastLoss  = 100_000 // microseconds that a witness is ahead at least if time was lost
	unknown    = math.MinInt64
)

// A Clock tells the node's time and converts it to the store's. Safe for concurrent use.
type Clock struct {
	base  time.Time
	ticks func() Node  // nil: the process's own, since base
	wall  func() Store // nil: no such witness
	// tolerance is how many microseconds the wall clock may move further unnoticed.
	tolerance int64
	// lost is for how long ticks stood still, and watched when the wall clock was last
	// looked at. latest and earliest are how far the store's time is ahead of the node's
	// at most and at least, by the last answer; unknown before the first.
	lost, watched, latest, earliest atomic.Int64

	mu sync.Mutex // guards what follows; taken once a millisecond, and for each answer
	// ahead is how far the wall clock was ahead of the node, by shard how far that shard
	// of the store was at most.
	ahead   int64
	byShard map[int]int64
}

// New returns a clock that goes by ticks, with the wall clock as a witness. Nil wall is
// no witness. If ticks is nil, both are the process's own.
func New(ticks func() Node, wall func() Store) *Clock {
	if ticks == nil {
		wall = func() Store { return Store(time.Now().UnixMicro()) }
	}
	c := &Clock{base: time.Now(), ticks: ticks, wall: wall, tolerance: leastLoss, ahead: math.MaxInt64, byShard: map[int]int64{}}
	begin := c.base.UnixMicro()
	if wall != nil {
		begin = int64(wall())
	}
	c.latest.Store(begin - c.Elapsed())
	c.earliest.Store(unknown)
	return c
}

// Tolerate has the wall clock move up to us microseconds further than the node's unnoticed:
// ticks that a test or a replay sets stand still while it works. It must be called before
// the clock is used.
func (c *Clock) Tolerate(us int64) { c.tolerance = us }

// Now returns the node's time.
func (c *Clock) Now() Node {
	t := c.Elapsed()
	if t-c.watched.Load() >= watchEvery {
		c.Watch()
	}
	return Node(t + c.lost.Load())
}

// LostTime returns for how many microseconds the node's clock stood still so far, as the
// witnesses say. What rests on an uninterrupted view of other nodes begins anew when it
// grows.
func (c *Clock) LostTime() int64 { return c.lost.Load() }

// Elapsed returns how long the node's clock ran, in microseconds, without what was lost:
// of the times that may have passed the shortest.
func (c *Clock) Elapsed() int64 {
	if c.ticks == nil {
		return int64(time.Since(c.base) / time.Microsecond)
	}
	return int64(c.ticks())
}

// Watch looks at the wall clock now: the node's own may stand still.
func (c *Clock) Watch() {
	if c.wall != nil && c.mu.TryLock() {
		c.watchWall()
		c.mu.Unlock()
	}
}

// watchWall looks at the wall clock. Requires: c.mu.
func (c *Clock) watchWall() {
	t := c.Elapsed()
	c.watched.Store(t)
	switch over := int64(c.wall()) - t - c.lost.Load() - c.ahead; {
	case over >= c.tolerance:
		c.lost.Add(over)
		c.earliest.Store(unknown) // the wall clock may have been set, and nothing lost
	case over < 0:
		c.ahead += over // it was set back, or this is the first look
	}
}

// Observe takes over the store's time that a shard reported in its answer to a call,
// which was sent at sent. A store that reports no time reports zero.
func (c *Clock) Observe(shard int, reported Store, sent Node) {
	if reported <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	most, least := int64(reported)-int64(sent), int64(reported)-c.Elapsed()-c.lost.Load()
	if last, ok := c.byShard[shard]; ok && least-last >= leastLoss {
		c.lost.Add(least - last)
		most, least = most-(least-last), last
	}
	c.byShard[shard] = most
	c.latest.Store(most)
	c.earliest.Store(least)
}

// Latest returns the store's time at t: not later, as far as the last answer says.
// Before the first answer it is that of the system's wall clock.
func (c *Clock) Latest(t Node) Store { return Store(int64(t) + c.latest.Load()) }

// Earliest returns the store's time at t: not earlier, as far as the last answer says.
// It reports false before the first answer.
func (c *Clock) Earliest(t Node) (Store, bool) {
	by := c.earliest.Load()
	return Store(int64(t) + by), by != unknown
}
