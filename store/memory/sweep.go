package memory

import "time"

// sweepRounds is over how many ticks a round over all tables is spread.
const sweepRounds = 30

// sweepLoop gives back, little by little, the memory of keys that expired and
// did not come again.
func (s *Store) sweepLoop() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for part := 0; ; part = (part + 1) % sweepRounds {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		now := s.now()
		s.sweep(now, part)
		s.report(now)
	}
}

// sweep does one of sweepRounds parts of a round.
func (s *Store) sweep(now int64, part int) {
	s.dropSpare()
	s.tables[maxDirect+1].slabs.dropSpare()
	s.sketches.dropWindows(now)
	for _, t := range s.tables[1:] {
		for i := part; i < tops; i += sweepRounds {
			t.sweepTop(&t.tops[i], now)
		}
	}
}

// sweepTop drops expired rows, shrinks segments and merges them.
func (t *table) sweepTop(p *top, now int64) {
	d := p.directory.Load()
	var last *segment
	for i := range d.segments {
		g := d.segments[i].Load()
		if g == last {
			continue
		}
		last = g
		g.mu.Lock()
		if g.prefix != gone {
			t.sweepSegment(g, now)
		}
		g.mu.Unlock()
	}
	for t.mergeSome(p) {
	}
	t.shrinkDirectory(p)
}

// sweepSegment drops the expired rows of g and gives back what it does not need.
// Requires: g is locked.
func (t *table) sweepSegment(g *segment, now int64) {
	g.latest = max(g.latest, now)
	t.dropExpired(g, edge(now))
	if t.slabs != nil {
		for at := 0; at < len(g.cells); at += t.words {
			if g.cells[at] != 0 && g.cells[at+1] != 0 {
				g.cells[at+1] = int64(t.slabs.compact(ref(g.cells[at+1])))
			}
		}
	}
	// A third more than is used: or the next few keys would make it grow again.
	if bytes := t.sizeFor(int(g.used) + int(g.used)/3); bytes < 8*cap(g.cells) {
		t.rehash(g, t.store.cells(bytes))
		t.store.shrinks.Add(1)
	}
}

// mergeSome merges neighbours of p that are nearly empty, and reports whether
// there were any.
func (t *table) mergeSome(p *top) bool {
	merged := false
	d := p.directory.Load()
	for i := range d.segments {
		g := d.segments[i].Load()
		g.mu.Lock()
		own := int(g.bits) - topBits
		g.mu.Unlock()
		if own == 0 || own > int(d.depth) {
			continue
		}
		// The neighbour differs in the last bit that g has. What has changed
		// since, merge finds out.
		bit := 1 << (int(d.depth) - own)
		if i&bit == 0 && t.merge(g, d.segments[i|bit].Load()) {
			merged = true
		}
	}
	return merged
}

// merge moves the rows of h into g if they are neighbours and together fill at
// most half of a segment.
func (t *table) merge(g, h *segment) bool {
	if g == h {
		return false
	}
	first, second := g, h
	if h.num < g.num {
		first, second = h, g
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	if g.prefix == gone || h.prefix == gone || g.bits != h.bits || g.bits == topBits || g.prefix^1 != h.prefix || g.prefix&1 != 0 {
		return false
	}
	ladder := t.ladder()
	used := int(g.used) + int(h.used)
	if used > capacity(ladder[len(ladder)-1]/8/t.words)/2 {
		return false
	}
	old := g.cells
	g.equip(t.store.cells(t.sizeFor(used + used/3)))
	for _, cells := range [2][]int64{old, h.cells} {
		for at := 0; at < len(cells); at += t.words {
			if cells[at] != 0 {
				g.put(cells[at : at+t.words])
			}
		}
		t.store.recycle(cells)
	}
	g.prefix >>= 1
	g.bits--
	g.latest = max(g.latest, h.latest)
	h.prefix, h.bits = gone, topBits
	h.cells, h.rows, h.used = nil, 0, 0
	t.publish(g)
	t.store.account(-segmentBytes)
	t.store.shrinks.Add(1)
	return true
}

// shrinkDirectory halves the directory of p as long as no segment needs its
// last bit.
func (t *table) shrinkDirectory(p *top) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		d := p.directory.Load()
		if d.depth == 0 {
			return
		}
		for i := 0; i < len(d.segments); i += 2 {
			if d.segments[i].Load() != d.segments[i+1].Load() {
				return
			}
		}
		t.replace(p, d, d.depth-1)
	}
}
