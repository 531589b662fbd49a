package memory

import (
	"sync"
	"sync/atomic"
)

// A top is the part of a table with the same upper tag bits.
type top struct {
	directory atomic.Pointer[directory]
	// mu guards replacing the directory and its entries. It is taken last, under
	// the locks of the segments concerned.
	mu sync.Mutex
}

// A directory finds the segment of a tag by depth bits that follow those of the
// top. A segment with fewer bits stands in several places.
type directory struct {
	depth    uint8
	segments []atomic.Pointer[segment]
}

func directoryBytes(entries int) int64 { return 32 + 8*int64(entries) }

func (p *top) eachSegment(f func(*segment)) {
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
			f(g)
		}
		g.mu.Unlock()
	}
}

// publish enters g into the directory of its top.
//
// Requires: g covers what it is to cover, and nobody else can change that.
func (t *table) publish(g *segment) {
	own := g.bits - topBits
	p := &t.tops[g.prefix>>own]
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.directory.Load()
	for d.depth < own {
		d = t.replace(p, d, d.depth+1)
	}
	from := int(g.prefix&(1<<own-1)) << (d.depth - own)
	for i := range 1 << (d.depth - own) {
		d.segments[from+i].Store(g)
	}
}

// replace gives p a directory of another depth. Requires: p is locked.
func (t *table) replace(p *top, d *directory, depth uint8) *directory {
	n := &directory{depth: depth, segments: make([]atomic.Pointer[segment], 1<<depth)}
	for i := range n.segments {
		n.segments[i].Store(d.segments[i<<d.depth>>depth].Load())
	}
	p.directory.Store(n)
	t.arena.account(directoryBytes(len(n.segments)) - directoryBytes(len(d.segments)))
	return n
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
