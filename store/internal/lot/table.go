package lot

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

const (
	shards = 64
	// entryBytes is what an entry takes beside its key: itself, and its place in the map.
	entryBytes = int64(unsafe.Sizeof(Entry{})) + 64
	// touchEvery is how exactly the order of use is kept, in microseconds; where
	// entries live for long, in parts of their lives.
	touchEvery, touchesALife = 4000, 32
	// lives is how many orders of use a shard has: of entries that may lie idle for less
	// than a second, less than two, less than four, and so on. Those that may for long
	// must not hide idle ones that may not.
	lives = 8
)

// A Table finds the entries of keys. It is bounded in bytes: for a new key the entry that
// was used longest ago leaves. Safe for concurrent use.
type Table struct {
	// Hash, if set, stands for a key under a limit instead of a random hash, which differs
	// from process to process: so a simulation is repeatable. It is set before the first use.
	Hash func(key string, l *weir.Limit) uint64

	seed    maphash.Seed
	shards  [shards]Shard
	used    atomic.Uint64 // a bit for each shard that had an entry once: no other is swept
	returns *Returns
	max     int64 // bytes of a shard
}

// A Shard is the entries of some keys, and their lock.
type Shard struct {
	sync.Mutex
	table *Table
	all   map[uint64]*Entry // nil until there was an entry
	drawn uint64            // decisions by what entries held
	roots *[lives]Entry     // of the rings, nil until there was an entry; next was used last
	bytes int64
	_     [64]byte // a shard to a cache line
}

// NewTable returns a table of at most bytes. What leaves it goes to returns.
func NewTable(bytes int64, returns *Returns) *Table {
	t := &Table{seed: maphash.MakeSeed(), returns: returns, max: bytes / shards}
	for i := range t.shards {
		t.shards[i].table = t
	}
	return t
}

// makeRoom has a shard have room for its first entry: most of few keys never have one.
func (g *Shard) makeRoom() {
	g.all, g.roots = map[uint64]*Entry{}, &[lives]Entry{}
	for i := range g.roots {
		root := &g.roots[i]
		root.prev, root.next = root, root
	}
}

// TagForKey returns what stands for a key under a limit, and those that share its counters.
// It is never zero.
func (t *Table) TagForKey(key string, l *weir.Limit) uint64 {
	if t.Hash != nil {
		return t.Hash(key, l)
	}
	return max(maphash.String(t.seed, key)^l.ID(), 1)
}

// ShardOfTag returns the shard of a tag. It must be locked while its entries are in use.
func (t *Table) ShardOfTag(tag uint64) *Shard { return &t.shards[tag%shards] }

// GetEntry returns the entry of a key, nil if there is none. Requires: the lock.
func (g *Shard) GetEntry(tag uint64, key string) *Entry {
	if e := g.all[tag]; e != nil && e.key == key {
		return e
	}
	return nil
}

// LockEntry locks the shard of a key and returns it with the tag and the entry, nil if there is
// none.
func (t *Table) LockEntry(key string, l *weir.Limit) (tag uint64, g *Shard, e *Entry) {
	tag = t.TagForKey(key, l)
	g = t.ShardOfTag(tag)
	g.Lock()
	return tag, g, g.GetEntry(tag, key)
}

// AddEntry returns the entry of a key, made if need be, of which a decider keeps extra bytes.
// It is nil if there is no room, or another key has the tag. Requires: the lock.
func (g *Shard) AddEntry(tag uint64, key string, l *weir.Limit, extra int64, now clock.Node) *Entry {
	if g.all[tag] != nil {
		return g.GetEntry(tag, key)
	}
	if g.all == nil {
		g.makeRoom()
	}
	size := entryBytes + int64(len(key)) + extra
	for g.bytes+size > g.table.max {
		last := g.oldestEntry()
		if last == nil || !g.table.mayLeave(last) {
			return nil
		}
		g.DropEntry(last)
	}
	e := &Entry{tag: tag, key: strings.Clone(key), Limit: l, size: size, returns: g.table.returns}
	e.prev, e.next, e.lots = e, e, e.space[:0]
	if g.all[tag] = e; len(g.all) == 1 {
		g.table.used.Or(1 << (tag % shards))
	}
	g.bytes += size
	g.KeepEntry(e, 0, now)
	return e
}

// TouchEntry notes that an entry is used at now. Requires: the lock.
func (g *Shard) TouchEntry(e *Entry, now clock.Node) {
	if int64(now-e.used) >= max(touchEvery, e.life/touchesALife) {
		g.KeepEntry(e, e.life, now)
	}
}

// CountDraw notes that an entry has decided. Requires: the lock.
func (g *Shard) CountDraw() { g.drawn++ }

// KeepEntry has an entry stay while it is idle for less than life microseconds, from now on.
// Requires: the lock.
func (g *Shard) KeepEntry(e *Entry, life int64, now clock.Node) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.used, e.life = now, life
	root := &g.roots[min(bits.Len64(uint64(e.life/1e6)), lives-1)]
	e.prev, e.next = root, root.next
	e.next.prev, root.next = e, e
}

// GrowEntry has an entry take so many bytes more, if there is room. Requires: the lock.
func (g *Shard) GrowEntry(e *Entry, bytes int64) bool {
	if g.bytes+bytes > g.table.max {
		return false
	}
	g.bytes, e.size = g.bytes+bytes, e.size+bytes
	return true
}

// oldestEntry returns the entry that was used longest ago, nil if there is none.
func (g *Shard) oldestEntry() (e *Entry) {
	for i := range g.roots {
		if last := g.roots[i].prev; last != &g.roots[i] && (e == nil || last.used < e.used) {
			e = last
		}
	}
	return e
}

// mayLeave reports whether an entry may leave, and what it holds has room.
func (t *Table) mayLeave(e *Entry) bool {
	return e.Flight == nil && !e.Pinned && t.returns.HasRoom(len(e.lots), e.key)
}

// DropEntry forgets an entry and surrenders what it holds. Requires: the lock.
func (g *Shard) DropEntry(e *Entry) {
	for len(e.lots) > 0 {
		e.surrender(len(e.lots) - 1)
	}
	e.prev.next, e.next.prev = e.next, e.prev
	delete(g.all, e.tag)
	g.bytes -= e.size
}

// ForgetKey drops what is held and known of a key whose count the store is told to forget.
// Nothing is returned of it: it was of the old count. It reports whether anything was held.
// If a flight is under way, which may bring more of the old count, nothing is dropped.
func (t *Table) ForgetKey(key string, l *weir.Limit) (held bool, f *Flight) {
	_, g, e := t.LockEntry(key, l)
	defer g.Unlock()
	if e != nil {
		if e.Flight != nil {
			return false, e.Flight
		}
		held = e.Pinned || e.FreeUnits() > 0
		e.lots = slices.DeleteFunc(e.lots, func(a Lot) bool { return a.Limit.ID() == l.ID() })
		g.DropEntry(e)
	}
	return t.returns.discard(key, l) || held, nil
}

// UndoDraw gives back what a draw has noted: to the lots that it came from, or as returns if
// they are no longer held.
func (t *Table) UndoDraw(h *Hold, now clock.Node) {
	g := t.ShardOfTag(h.tag)
	g.Lock()
	defer g.Unlock()
	e := g.GetEntry(h.tag, h.key)
	for i := range h.Parts {
		if p := &h.Parts[i]; e == nil || !e.PutBack(p.Limit, p.Free, p.ID, now) {
			t.returns.Surrender(h.key, p)
		}
	}
	h.Parts = h.Parts[:0]
}

// An Idler is a State of an entry that gives back what it can when the entry has been idle
// for its life, and may have it stay.
type Idler interface {
	Idle(e *Entry, now clock.Node)
}

// SweepIdle drops the entries that have been idle for their life at now.
func (t *Table) SweepIdle(now clock.Node) {
	for rest := t.used.Load(); rest != 0; rest &= rest - 1 {
		g := &t.shards[bits.TrailingZeros64(rest)]
		g.sweepEntries(func(e *Entry) bool {
			if int64(now-e.used) < e.life {
				return false
			}
			s, ok := e.State.(Idler)
			if ok {
				s.Idle(e, now)
			}
			switch {
			case t.mayLeave(e):
				g.DropEntry(e)
			case ok:
				g.KeepEntry(e, e.life, now) // it must not hide those behind it
			default:
				return false
			}
			return true
		})
	}
}

// DrainEntries drops all entries, shard by shard, and calls each after every one, to send what
// was surrendered before there is no room for it.
func (t *Table) DrainEntries(each func()) {
	for i := range t.shards {
		g := &t.shards[i]
		g.sweepEntries(func(e *Entry) bool {
			g.DropEntry(e)
			return true
		})
		each()
	}
}

// sweepEntries calls leave of the entries of each order of use, the one that is idle longest
// first, until it reports that one has stayed where it was.
func (g *Shard) sweepEntries(leave func(e *Entry) bool) {
	g.Lock()
	defer g.Unlock()
	for i := 0; i < lives && len(g.all) > 0; i++ {
		for root := &g.roots[i]; root.prev != root && leave(root.prev); {
		}
	}
}

// CountDrawn returns how many decisions were made by what entries held, so far.
func (t *Table) CountDrawn() (n uint64) {
	for i := range t.shards {
		g := &t.shards[i]
		g.Lock()
		n += g.drawn
		g.Unlock()
	}
	return n
}

// CountHeld returns how many keys have an entry, the free units of all, slack not, and their
// memory.
func (t *Table) CountHeld() (keys int, units, bytes int64) {
	for i := range t.shards {
		g := &t.shards[i]
		g.Lock()
		keys, bytes = keys+len(g.all), bytes+g.bytes
		for _, e := range g.all {
			if !e.hasSlack() {
				units += e.FreeUnits()
			}
		}
		g.Unlock()
	}
	return keys, units, bytes
}
