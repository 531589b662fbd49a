package memory

// sweepTop drops expired rows, shrinks segments and merges them.
func (t *table) sweepTop(p *top, now int64) {
	p.eachSegment(func(g *segment) { t.sweepSegment(g, now) })
	for t.mergeSome(p) {
	}
	t.shrinkDirectory(p)
}

// sweepSegment drops the expired rows of g and gives back what it does not need.
// Requires: g is locked.
func (t *table) sweepSegment(g *segment, now int64) {
	g.latest = max(g.latest, now)
	t.dropExpired(g, expiryEdge(now))
	if t.slabs != nil {
		for at := 0; at < len(g.cells); at += t.words {
			if g.cells[at] != 0 && g.cells[at+1] != 0 {
				g.cells[at+1] = int64(t.slabs.compact(ref(g.cells[at+1])))
			}
		}
	}
	// A third more than is used: or the next few keys would make it grow again.
	if bytes := t.sizeFor(int(g.used) + int(g.used)/3); bytes < 8*cap(g.cells) {
		t.rehashSegment(g, bytes)
		t.shrinks.Add(1)
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
		if i&bit == 0 && t.mergeSegments(g, d.segments[i|bit].Load()) {
			merged = true
		}
	}
	return merged
}

// mergeSegments moves the rows of h into g if they are neighbours and together fill at
// most half of a segment.
func (t *table) mergeSegments(g, h *segment) bool {
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
	ladder := t.sizeLadder()
	used := int(g.used) + int(h.used)
	if used > capacity(ladder[len(ladder)-1]/8/t.words)/2 {
		return false
	}
	old := g.cells
	g.equipCells(t.arena.takeCells(t.sizeFor(used + used/3)))
	for _, cells := range [2][]int64{old, h.cells} {
		g.insertRows(cells)
		t.arena.recycle(cells)
	}
	g.prefix >>= 1
	g.bits--
	g.latest = max(g.latest, h.latest)
	h.prefix, h.bits = gone, topBits
	h.cells, h.rows, h.used = nil, 0, 0
	t.publish(g)
	t.arena.account(-segmentBytes)
	t.shrinks.Add(1)
	return true
}
