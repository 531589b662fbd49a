package memory

import (
	"maps"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/params"
)

// sketches holds what many keys share: the state of keys that found no room in
// the tables, and that of approximate limits.
type sketches struct {
	maxBytes int64 // for overflow
	mu       sync.Mutex
	live     atomic.Pointer[sketchSet]
	bytes    atomic.Int64 // overflow's
	// overflowed counts decisions on keys without room.
	overflowed atomic.Uint64
}

// A sketchSet never changes.
type sketchSet struct {
	overflow map[overflowKey]*overflow
	windows  map[windowKey]*sketch.Window // of approximate limits
}

// An overflowKey says which limits share a sketch: those whose state reaches
// equally far into the future. In one sketch a limit with a long period would
// lock out the keys of one with a short period.
type overflowKey struct {
	stamps bool
	reach  int64
}

// An overflow keeps the keys that found no room in the tables, in one of two
// ways. With neither, it refuses them: there is no memory left.
type overflow struct {
	stamps *sketch.TAT
	window *sketch.Window
	bytes  int64
	// until is the time, in microseconds, from which nothing in it matters; ended
	// once nobody may use it.
	until atomic.Int64
}

// canCharge reports whether anything can be charged to o.
func (o *overflow) canCharge() bool { return o.stamps != nil || o.window != nil }

const (
	ended = -1 << 63
	// grace is by how much the end of a sketch is put off, in microseconds: more
	// than a decision that has looked it up takes to use it.
	grace = 60_000_000
	// minSketch is the least memory for which a sketch is worth while.
	minSketch = 32 << 10
)

// refusing is for algorithms whose state cannot be estimated.
var refusing = &overflow{}

func (k *sketches) init(maxBytes int64) {
	k.maxBytes = maxBytes
	k.live.Store(&sketchSet{overflow: map[overflowKey]*overflow{}, windows: map[windowKey]*sketch.Window{}})
}

func overflowKeyOf(l *weir.Limit) overflowKey {
	period := micros.Of(l.Period)
	if l.Traits()&weir.Stamps != 0 {
		// How far ahead of now a stamp may be, to within a factor of two.
		return overflowKey{stamps: true, reach: int64(bits.Len64(max(refillMicros(l.Burst, period, l.Count), uint64(period))))}
	}
	if l.Anchor == params.AnchorCalendar {
		period = max(period, longestWindow(l.Calendar))
	}
	return overflowKey{reach: period}
}

// refillMicros returns how long burst units take to flow back at count per period, in
// microseconds, rounded up.
func refillMicros(burst, period, count int64) uint64 {
	hi, lo := bits.Mul64(uint64(burst), uint64(period))
	if hi >= uint64(count) {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, uint64(count))
	if r > 0 {
		q++
	}
	return q
}

// longestWindow returns how long a calendar window can be, in microseconds.
func longestWindow(unit params.Calendar) int64 {
	days := time.Duration(366)
	switch unit {
	case params.CalendarDay:
		days = 1
	case params.CalendarWeek:
		days = 7
	case params.CalendarMonth:
		days = 31
	}
	// Clocks are put back by an hour in autumn, somewhere by two.
	return (days*24*time.Hour + 2*time.Hour).Microseconds()
}

// summable reports whether a sketch can stand for the state of l: its stamp, or
// the units spent in a period.
func summable(l *weir.Limit) bool {
	switch tr := l.Traits(); {
	case tr&(weir.Leases|weir.Shapes) != 0:
		return false
	case tr&weir.Stamps != 0:
		return l.Cells <= maxDirect && tr&weir.Grows == 0
	}
	return true
}

// overflowFor returns the sketch for the keys of l, nil if it has yet to be opened.
func (k *sketches) overflowFor(l *weir.Limit, now int64) *overflow {
	if !summable(l) {
		return refusing
	}
	o := k.live.Load().overflow[overflowKeyOf(l)]
	if o == nil || !o.matters(now) {
		return nil
	}
	return o
}

// recallKey returns what a sketch knows of a key: a stamp, or how many units it has
// spent.
func (k *sketches) recallKey(tag uint64, l *weir.Limit, now int64) (stamp, units int64) {
	set := k.live.Load()
	if len(set.overflow) == 0 || !summable(l) {
		return 0, 0
	}
	o := set.overflow[overflowKeyOf(l)]
	switch {
	case o == nil:
	case o.stamps != nil:
		shard := o.stamps.Shard(o.stamps.ShardIndex(tag))
		shard.Lock()
		stamp = wholeMicros(shard.Estimate(tag))
		shard.Unlock()
		if stamp <= expiryEdge(now) {
			stamp = 0
		}
	case o.window != nil:
		// More than twice the count is as good as twice: nothing passes.
		units = min(o.window.Estimate(tag, now), 2*l.Count, weir.MaxCost)
	}
	return stamp, units
}

// matters says that o holds something until then. It reports false when o has
// ended.
func (o *overflow) matters(until int64) bool {
	for {
		old := o.until.Load()
		switch {
		case old == ended:
			return false
		case old >= until+grace:
			return true
		}
		// Not every microsecond: the line is shared.
		if o.until.CompareAndSwap(old, until+2*grace) {
			return true
		}
	}
}

// openOverflow makes the sketch for the keys of l. It takes milliseconds: no segment
// may be locked.
func (k *sketches) openOverflow(l *weir.Limit, now int64) {
	key := overflowKeyOf(l)
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.live.Load()
	if o := set.overflow[key]; o != nil && o.matters(now) {
		return
	}
	// Each takes half of what is left, so that the first periods, which have
	// most of the keys, fare best, and there is some for every one.
	o := newOverflow(key, (k.maxBytes-k.bytes.Load())/2)
	o.matters(now)
	k.bytes.Add(o.bytes)
	next := set.clone()
	next.overflow[key] = o
	k.live.Store(next)
}

func newOverflow(key overflowKey, bytes int64) *overflow {
	o := &overflow{}
	if bytes < minSketch {
		return o
	}
	if key.stamps {
		const depth = 4
		width := floorPow2(bytes / 8 / depth)
		if t, err := sketch.NewTAT(depth, int(min(width, sketch.MaxWidth))); err == nil {
			o.stamps, o.bytes = t, t.Bytes()
		}
		return o
	}
	const (
		depth      = 4
		subWindows = 4
	)
	generation := bytes / (subWindows + 1)
	// Half for counters; the filter, in which the keys of a flood live that come
	// only once, gets the rest.
	width := floorPow2(generation / 2 / 4 / depth)
	w, err := sketch.NewWindow(sketch.WindowOptions{
		Period: key.reach, SubWindows: subWindows, Depth: depth, Width: int(min(width, sketch.MaxWidth)),
		BloomBits: min(8*generation-8*4*depth*width, sketch.MaxBloomBits), BloomHashes: 2,
		SampleEvery: -1, MaxBytes: bytes,
	})
	if err == nil {
		o.window, o.bytes = w, w.Bytes()
	}
	return o
}

func floorPow2(n int64) int64 { return 1 << (bits.Len64(uint64(n)) - 1) }

// expireOverflows ends the sketches that hold nothing that matters at now, and returns
// how many are left.
func (k *sketches) expireOverflows(now int64) int {
	set := k.live.Load()
	if len(set.overflow) == 0 {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	set = k.live.Load()
	next := set.clone()
	for key, o := range set.overflow {
		if old := o.until.Load(); old < now && o.until.CompareAndSwap(old, ended) {
			delete(next.overflow, key)
			k.bytes.Add(-o.bytes)
		}
	}
	if len(next.overflow) < len(set.overflow) {
		k.live.Store(next)
	}
	return len(next.overflow)
}

func (set *sketchSet) clone() *sketchSet {
	return &sketchSet{overflow: maps.Clone(set.overflow), windows: maps.Clone(set.windows)}
}

// wholeMicros rounds a stamp up: what lies below the microsecond is the
// algorithm's own.
func wholeMicros(stamp int64) int64 {
	const below = 1<<weir.FractionBits - 1
	return (stamp + below) &^ below
}
