package sketch

import (
	"math"
	"math/bits"
)

// A Window limits any number of keys to L units in any period W, in fixed memory.
//
// Time is cut into sub-windows of ceil(W/m) and the newest m+1 are kept, each as
// a generation of its own: a Bloom filter with the keys seen in it and a
// [CountMin] sketch of their further units. A key's use is the sum of its
// estimates over the m+1, which cover every period W that ends now. Generations
// rotate by the times that callers pass; nothing runs in the background.
//
// Theorem. Let all units of a key be admitted by Spend with a limit of
// at most L. In any interval of length W of the window's clock, which is the
// latest time passed so far to the key's shard, the key is admitted at most L
// units. For such an interval touches at most m+1 sub-windows; when the last of
// its units was admitted, all of them were live; each estimate is at least the
// units admitted in its sub-window; and the sum with the new units was at most L.
//
// What it costs: a key alone in the sketch is admitted L units every
// (m+1)*ceil(W/m), which is m/(m+1) of the limit in the long run (4/5 for the
// default m of 4). Keys that share their cells with others may be refused
// earlier: by more than e*M/width units with a chance of at most e^-depth, M
// being the units in the counters of the live generations and both M and width
// those of the key's shard, and by one unit more for each generation in which
// the Bloom filter wrongly knew the key. Larger m wastes less of the limit and
// needs m+1 times the memory of one generation, whose width does not shrink with
// m, as the errors of all of them add up.
//
// One Window can serve many limits of one period, if the hash of a key covers the
// limit it is counted for.
//
// Bytes: (m+1) * (4*depth*width + bloomBits/8), and 8*(m+2) for each sampled key.
//
// Only what is admitted is added, so a refused flood disturbs nobody. Counters
// hold 2^32-1 units and read as full from there: a limit above that is refused
// early rather than exceeded.
//
// A Window is safe for concurrent use. Keys are spread over shards of one mutex
// each; a shard empties a generation when a call first passes the generation's
// start, which costs the clearing of that shard's part alone. Calls do not
// allocate.
//
// Source: Cormode and Muthukrishnan 2005, Estan and Varghese 2002, Bloom 1970;
// the strict sum over m+1 sub-windows follows from counting those that an
// interval can touch.
type Window struct {
	shards []shard
	shift  uint // 64 less the bits that choose a shard
	bytes  int64
}

// NewWindow returns an empty window, or an error that says which option cannot be
// met and what to do.
func NewWindow(o WindowOptions) (*Window, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Window{
		shards: make([]shard, o.Shards),
		shift:  uint(64 - bits.TrailingZeros(uint(o.Shards))),
	}
	span := o.Period / int64(o.SubWindows)
	if o.Period%int64(o.SubWindows) != 0 {
		span++
	}
	for i := range w.shards {
		s := &w.shards[i]
		s.span = span
		s.ring = make([]generation, o.SubWindows+1)
		for g := range s.ring {
			s.ring[g] = generation{
				seen:   makeBloom(perShard(o.BloomBits, o.Shards), o.BloomHashes),
				counts: makeCountMin(o.Depth, o.Width/o.Shards),
			}
			w.bytes += s.ring[g].bytes()
		}
		if o.SampleEvery > 0 {
			s.sample = makeSample(o.SampleEvery, int(perShard(int64(o.SampleKeys), o.Shards)), len(s.ring))
			w.bytes += s.sample.bytes()
		}
	}
	return w, nil
}

// perShard divides n over shards, rounding up.
func perShard(n int64, shards int) int64 { return (n + int64(shards) - 1) / int64(shards) }

// Bytes returns the memory of the window, which never changes.
func (w *Window) Bytes() int64 { return w.bytes }

// IsExpired reports whether units were added and none of them counts at now any more.
func (w *Window) IsExpired(now int64) bool {
	started := false
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		counts := s.started && floorDiv(now, s.span)-s.newest < int64(len(s.ring))
		started = started || s.started
		s.mu.Unlock()
		if counts {
			return false
		}
	}
	return started
}

// lockShard returns the shard of the key with hash h, locked.
func (w *Window) lockShard(h uint64) *shard {
	s := &w.shards[spread(h)>>w.shift]
	s.mu.Lock()
	return s
}

// Estimate returns the units of the key with hash h in the generations live at
// now: never fewer than were admitted in the period that ends now, and
// math.MaxInt64 where counters are full. It changes nothing.
func (w *Window) Estimate(h uint64, now int64) int64 {
	s := w.lockShard(h)
	u := s.sumGenerations(h, now, math.MaxInt64)
	s.mu.Unlock()
	return u.total()
}

// Peek answers what Spend would, and changes nothing.
func (w *Window) Peek(h uint64, now, cost, limit int64) Decision {
	cost, limit = max(cost, 0), max(limit, 0)
	s := w.lockShard(h)
	d := s.describe(s.sumGenerations(h, now, limit-cost), now, cost, limit)
	s.mu.Unlock()
	return d
}

// Spend admits cost units of the key with hash h at now if its estimate and they
// stay within limit, and adds nothing otherwise. A cost of 0 or less is always
// allowed and adds nothing; a limit of 0 or less admits nothing. limit may differ
// from call to call; the theorem then holds for the largest.
func (w *Window) Spend(h uint64, now, cost, limit int64) Decision {
	cost, limit = max(cost, 0), max(limit, 0)
	s := w.lockShard(h)
	s.advance(now)
	u := s.sumGenerations(h, now, limit-cost)
	var d Decision
	if cost > 0 && u.fits(cost, limit) {
		s.addUnits(h, cost, &u)
		d = s.describeSpent(u, now, limit)
	} else {
		d = s.describe(u, now, cost, limit)
	}
	s.mu.Unlock()
	return d
}

// Force adds cost units whatever the limit, which only describes what remains.
// It is for costs known after the answer.
func (w *Window) Force(h uint64, now, cost, limit int64) Decision {
	cost, limit = max(cost, 0), max(limit, 0)
	s := w.lockShard(h)
	s.advance(now)
	u := s.sumGenerations(h, now, 0)
	if cost > 0 {
		s.addUnits(h, cost, &u)
	}
	d := s.describeSpent(u, now, limit)
	s.mu.Unlock()
	return d
}
