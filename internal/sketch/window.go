package sketch

import "math/bits"

// A Window limits any number of keys to L units in any period W, in fixed memory.
//
// Time is cut into sub-windows of ceil(W/m) and the newest m+1 are kept, each as
// a generation of its own: a [Bloom] filter with the keys seen in it and a
// [CountMin] sketch of their further units. A key's use is the sum of its
// estimates over the m+1, which cover every period W that ends now. Generations
// rotate by the times that callers pass; nothing runs in the background.
//
// Theorem. Let all units of a key be admitted by Spend or Grant with a limit of
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
	shards []WindowShard
	shift  uint // 64 less the bits that choose a shard
	period int64
	bytes  int64
}

// NewWindow returns an empty window, or an error that says which option cannot be
// met and what to do.
func NewWindow(o WindowOptions) (*Window, error) {
	o, err := o.sized()
	if err != nil {
		return nil, err
	}
	w := &Window{
		shards: make([]WindowShard, o.Shards),
		shift:  uint(64 - bits.TrailingZeros(uint(o.Shards))),
		period: o.Period,
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
				seen:   makeBloom(share(o.BloomBits, o.Shards), o.BloomHashes),
				counts: makeCountMin(o.Depth, o.Width/o.Shards),
			}
			w.bytes += s.ring[g].bytes()
		}
		if o.SampleEvery > 0 {
			s.sample = makeSample(o.SampleEvery, int(share(int64(o.SampleKeys), o.Shards)), len(s.ring))
			w.bytes += s.sample.bytes()
		}
	}
	return w, nil
}

// share divides n over shards, rounding up.
func share(n int64, shards int) int64 { return (n + int64(shards) - 1) / int64(shards) }

// Period returns W in microseconds.
func (w *Window) Period() int64 { return w.period }

// Bytes returns the memory of the window, which never changes.
func (w *Window) Bytes() int64 { return w.bytes }

// Over reports whether units were added and none of them counts at now any more.
func (w *Window) Over(now int64) bool {
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

// Shards returns the number of shards.
func (w *Window) Shards() int { return len(w.shards) }

// Index returns which shard, 0 to Shards-1, holds the key with hash h.
func (w *Window) Index(h uint64) int { return int(spread(h) >> w.shift) }

// Shard returns the i-th shard, for callers that hold its lock over several calls.
func (w *Window) Shard(i int) *WindowShard { return &w.shards[i] }

// Estimate returns the units of the key with hash h in the generations live at
// now: never fewer than were admitted in the period that ends now, and
// math.MaxInt64 where counters are full. It changes nothing.
func (w *Window) Estimate(h uint64, now int64) int64 {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	units := s.Estimate(h, now)
	s.mu.Unlock()
	return units
}

// Peek answers what Spend would, and changes nothing.
func (w *Window) Peek(h uint64, now, cost, limit int64) Decision {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	d := s.Peek(h, now, cost, limit)
	s.mu.Unlock()
	return d
}

// Spend admits cost units of the key with hash h at now if its estimate and they
// stay within limit, and adds nothing otherwise. A cost of 0 or less is always
// allowed and adds nothing; a limit of 0 or less admits nothing. limit may differ
// from call to call; the theorem then holds for the largest.
func (w *Window) Spend(h uint64, now, cost, limit int64) Decision {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	d := s.Spend(h, now, cost, limit)
	s.mu.Unlock()
	return d
}

// Force adds cost units whatever the limit, which only describes what remains.
// It is for costs known after the answer, and for merging a key's exact count
// that the window knows nothing of.
func (w *Window) Force(h uint64, now, cost, limit int64) Decision {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	d := s.Force(h, now, cost, limit)
	s.mu.Unlock()
	return d
}

// Grant admits as many units up to cost as the limit has left, and returns how
// many. None is a refusal, whose RetryAfter is that of one unit.
func (w *Window) Grant(h uint64, now, cost, limit int64) (int64, Decision) {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	granted, d := s.Grant(h, now, cost, limit)
	s.mu.Unlock()
	return granted, d
}

// Raise makes the newest generation hold at least v units of the key, as if they
// had been admitted now. It takes back an exact count that was begun from this
// window's Estimate, where Force would count twice what the newest generation
// holds already. Older generations are still counted beside v until they leave,
// so a key that is moved to and fro in every generation is over-counted more and
// more: move a key back when it is idle, or not at all.
func (w *Window) Raise(h uint64, now, v int64) {
	s := &w.shards[w.Index(h)]
	s.mu.Lock()
	s.Raise(h, now, v)
	s.mu.Unlock()
}
