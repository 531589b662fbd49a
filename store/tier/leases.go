package tier

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
)

const (
	leaseShards = 64
	// leaseBytes is what a lease takes beside its key, its place in the map
	// included.
	leaseBytes = int64(unsafe.Sizeof(lease{})) + 64
	// touchEvery is how exactly the order of use is kept, in microseconds; where
	// leases live for long, in parts of their lives.
	touchEvery, touchesALife = 4000, 32
	// lives is how many orders of use there are in a shard: of leases that live for
	// less than a second, less than two, less than four, and so on.
	lives = 8
)

// leases is the table of what the node holds. It is bounded in bytes: for a new
// key the one that was used longest ago leaves, and what it held is given back. If
// even that is not possible at once, the new key is decided by the shared store.
//
// Safe for concurrent use.
type leases struct {
	shards   [leaseShards]leaseShard
	maxBytes int64 // of a shard
	returns  returns
}

type leaseShard struct {
	mu  sync.Mutex
	all map[uint64]*lease
	// roots are those of the rings in the order of use: next was used last. Leases
	// that live for long must not hide idle ones that do not.
	roots [lives]lease
	bytes int64
	_     [64]byte // a shard to a cache line
}

func newLeases(bytes int64) *leases {
	t := &leases{maxBytes: bytes / leaseShards}
	t.returns.wake = make(chan struct{}, 1)
	t.returns.max = bytes / 2
	for i := range t.shards {
		g := &t.shards[i]
		g.all = map[uint64]*lease{}
		for i := range g.roots {
			root := &g.roots[i]
			root.prev, root.next = root, root
		}
	}
	return t
}

func (t *leases) shard(tag uint64) *leaseShard { return &t.shards[tag%leaseShards] }

// get returns the lease of a key, with the plan p from now on. It is nil if there
// is none, or if the place is another key's. Requires: mu.
func (g *leaseShard) get(tag uint64, key string, l *weir.Limit) *lease {
	e := g.all[tag]
	if e == nil || e.plan.limit != l || e.key != key {
		return nil
	}
	return e
}

// touch notes that e is used. Requires: mu.
func (g *leaseShard) touch(e *lease, now int64) {
	if now-e.used < max(touchEvery, e.life/touchesALife) {
		return
	}
	e.used = now
	g.move(e)
}

// move makes e the one that was used last, among those that may lie idle for as
// long. Requires: mu.
func (g *leaseShard) move(e *lease) {
	e.unlink()
	g.push(e)
}

func (e *lease) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

func (g *leaseShard) push(e *lease) {
	e.life = e.plan.life(e.largest())
	root := &g.roots[min(bits.Len64(uint64(e.life/1e6)), lives-1)]
	e.prev, e.next = root, root.next
	e.next.prev = e
	root.next = e
}

// add returns the lease of a key, made if need be. It is nil if there is no room.
// Requires: mu.
func (t *leases) add(g *leaseShard, tag uint64, key string, p *plan, now int64) *lease {
	if e := g.all[tag]; e != nil {
		if e.key != key {
			return nil
		}
		if e.plan != p {
			// The limit was changed: what is held stays counted.
			if e.tally != nil || p.counting != nil {
				// Units and tallies do not mix: one is settled before the other
				// begins.
				if e.busy() {
					return nil
				}
				t.drop(g, e)
				return t.add(g, tag, key, p, now)
			}
			var back [2]giveBack
			list := back[:0]
			e.change(p, now, &list)
			t.returns.add(list)
		}
		return e
	}
	size := leaseSize(key, p)
	for g.bytes+size > t.maxBytes {
		if !t.evict(g) {
			return nil
		}
	}
	e := &lease{tag: tag, key: strings.Clone(key), plan: p, used: now, heard: -1}
	g.all[tag] = e
	g.bytes += size
	g.push(e)
	return e
}

// leaseSize is what the lease of a key takes.
func leaseSize(key string, p *plan) int64 {
	size := leaseBytes + int64(len(key))
	if p.counting != nil {
		size += int64(unsafe.Sizeof(tally{}))
	}
	return size
}

// evict gives back what the lease that was used longest ago holds, and forgets
// it. Requires: mu.
func (t *leases) evict(g *leaseShard) bool {
	var e *lease
	for i := range g.roots {
		if last := g.roots[i].prev; last != &g.roots[i] && (e == nil || last.used < e.used) {
			e = last
		}
	}
	if e == nil || e.busy() || !t.returns.room(4, e.key) {
		return false
	}
	t.drop(g, e)
	return true
}

// busy reports whether a lease must stay: a call is under way, or the store has
// not been told of all that was admitted.
func (e *lease) busy() bool {
	return e.fetch != nil || e.tally != nil && (e.tally.dirty || !e.tally.told())
}

// drop forgets a lease. What it holds is given back. Requires: mu.
func (t *leases) drop(g *leaseShard, e *lease) {
	var back [4]giveBack
	list := back[:0]
	for i := range e.lots {
		if e.lots[i].units > 0 {
			e.giveUp(&e.lots[i], &list)
		}
	}
	if y := e.tally; y != nil && y.share > 0 {
		list = append(list, giveBack{key: e.key, limit: e.plan.counting.slack, units: y.share, receipt: y.shareBy, bound: true})
	}
	if y := e.tally; y != nil && y.untold < 0 {
		list = append(list, giveBack{key: e.key, limit: e.plan.limit, units: -y.untold, receipt: y.named(e.plan), bound: true})
	}
	t.returns.add(list)
	e.unlink()
	delete(g.all, e.tag)
	g.bytes -= leaseSize(e.key, e.plan)
}

// sweep gives back what has not been used for the time of its lease, and forgets
// keys that hold nothing.
func (t *leases) sweep(now int64) {
	for i := range t.shards {
		g := &t.shards[i]
		g.mu.Lock()
		if len(g.all) == 0 {
			g.mu.Unlock()
			continue
		}
		for i := range g.roots {
			root := &g.roots[i]
			for e := root.prev; e != root && now-e.used >= e.life; e = root.prev {
				if e.busy() || !t.returns.room(4, e.key) {
					break
				}
				t.drop(g, e)
			}
		}
		g.mu.Unlock()
	}
}

// clear forgets all leases of the i-th shard, to be given back.
func (t *leases) clear(i int) {
	g := &t.shards[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.roots {
		root := &g.roots[i]
		for e := root.prev; e != root; e = root.prev {
			t.drop(g, e)
		}
	}
}

// held returns how many keys have a lease, and the units that they hold.
func (t *leases) held() (keys int, units int64) {
	for i := range t.shards {
		g := &t.shards[i]
		g.mu.Lock()
		keys += len(g.all)
		for _, e := range g.all {
			units += e.balance()
		}
		g.mu.Unlock()
	}
	return keys, units
}

// A giveBack is units that were fetched and not spent.
type giveBack struct {
	key     string
	limit   *weir.Limit
	units   int64
	receipt int64
	// charged is when the shared store charged the units, by its clock; 0: not known.
	charged int64
	// bound: the units are given back before the receipt or not at all. Those of a
	// window are of no use after it, those of a bucket have flowed in again.
	bound bool
	// rest: units of a concurrency limit, of the lot that receipt names, of which so
	// many are kept.
	rest int64
	// ends: a place under a name that is not used again, which ends by itself then, by
	// the node's clock. Until then it is given back again if the store does not answer,
	// and twice if it may be granted after it was given back.
	ends  int64
	twice bool
}

// Returns is what is to be given back to the shared store.
//
// Safe for concurrent use.
type returns struct {
	mu  sync.Mutex
	all []giveBack
	// later is what is given back again, as the shared store did not answer.
	later []giveBack
	// bytes is what all take with their keys, at most max.
	bytes, max int64
	wake       chan struct{} // when there is enough for a call

	given, stranded atomic.Uint64 // units
}

// size is what an entry takes.
func (b *giveBack) size() int64 { return int64(unsafe.Sizeof(*b)) + int64(len(b.key)) }

// room reports whether n more of a key can be kept.
func (r *returns) room(n int, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := giveBack{key: key}
	return r.bytes+int64(n)*b.size() <= r.max
}

// add keeps list until it is given back. Beyond the bound units stay spent.
func (r *returns) add(list []giveBack) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range list {
		if r.bytes+b.size() > r.max {
			r.stranded.Add(uint64(b.units))
			continue
		}
		r.bytes += b.size()
		r.all = append(r.all, b)
	}
	if len(r.all) >= returnsAtOnce {
		r.hurry()
	}
}

// putOff keeps those of some, which were taken out, that are places which have not
// ended by now and are given back again: all, or if they were given back those that are
// so twice. It returns how many units they are.
func (r *returns) putOff(some []giveBack, now int64, given bool) (units uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range some {
		if b.ends > now && (b.twice || !given) && r.bytes+b.size() <= r.max {
			b.twice = b.twice && !given
			r.bytes += b.size()
			r.later = append(r.later, b)
			units += uint64(b.units)
		}
	}
	return units
}

// resume has what was put off given back again.
func (r *returns) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.later = append(r.all, r.later...), nil
}

// hurry has what is kept given back at once.
func (r *returns) hurry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take takes out up to n.
func (r *returns) take(n int) []giveBack {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, len(r.all))
	if n == 0 {
		r.all = nil
		return nil
	}
	some := r.all[:n:n]
	r.all = r.all[n:]
	for i := range some {
		r.bytes -= some[i].size()
	}
	return some
}
