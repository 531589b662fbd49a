package tier

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// slots is the table of the places under concurrency limits that the node holds and
// hands out on its own. It is bounded in bytes: for what has no room the shared
// store is asked.
//
// Safe for concurrent use.
type slots struct {
	shards   [leaseShards]slotShard
	bytes    atomic.Int64
	maxBytes int64
	// keys is how many there are in all.
	keys atomic.Int64
	next int // the shard that is looked through next; of the sweeper
}

type slotShard struct {
	mu    sync.Mutex
	all   map[uint64]*places
	bytes *atomic.Int64 // of the table
	_     [64]byte      // a shard to a cache line
}

// A places is what the node holds and has handed out of one key. Times are the
// node's, in microseconds.
//
// Invariant: a holder's time ends before that of the lot it is in, and the units of
// a lot's holders are at most the lot's. A lot is a lease on the shared store, which
// ends no earlier there, so that all holders of all nodes together never have more
// than the limit, whatever becomes of a node.
type places struct {
	tag  uint64
	key  string
	plan *plan
	lots []*slotLot
	// holders are those who have a place, by the names under which they asked, and
	// root the ring of them, whose time ends first at root.next.
	holders map[int64]*holder
	root    holder
	// pace is how much is fetched at a time, within the node's share.
	pace int64
	// remaining is what the shared store had left when it was asked at asked.
	remaining, asked int64
	// A cost of refused or more is refused until the shared store is asked again, at
	// ask. It may pass at retry.
	refused, ask, retry int64
	fetch               *fetch
	waiting             int64 // units that are waited for
	// least is the fewest free units since since: so many lay idle.
	least, since int64
}

// A slotLot is units that were fetched under one name. The name is not used for
// another lot, and its units never grow: what is told late, twice or out of order
// can make the shared store count too much for a while, and never too little.
type slotLot struct {
	id          int64
	units, used int64
	expiry      int64
	// lost: the shared store no longer counts it. It is not handed out any more.
	lost bool
	// over: it was fetched under a larger count. It is not handed out any more, and
	// what nobody has of it is given back.
	over bool
}

func (t *slotLot) free() int64 { return t.units - t.used }

// closed reports whether nobody gets units of the lot any more who has none.
func (t *slotLot) closed() bool { return t.lost || t.over }

// A holder has units until its time ends.
type holder struct {
	prev, next *holder
	id, units  int64
	expiry     int64
	// lot is where they are from; nil if the shared store has granted them to the
	// holder itself.
	lot *slotLot
}

const (
	placesBytes = int64(unsafe.Sizeof(places{})) + 128
	holderBytes = int64(unsafe.Sizeof(holder{})) + 48
	slotBytes   = int64(unsafe.Sizeof(slotLot{})) + 8
	// maxLots is how many lots a key has at most.
	maxLots = 16
)

func newSlots(bytes int64) *slots {
	t := &slots{maxBytes: bytes}
	for i := range t.shards {
		t.shards[i].all, t.shards[i].bytes = map[uint64]*places{}, &t.bytes
	}
	return t
}

func (t *slots) shard(tag uint64) *slotShard { return &t.shards[tag%leaseShards] }

// get returns the places of a key, nil if there is none. Requires: mu.
func (g *slotShard) get(tag uint64, key string) *places {
	if e := g.all[tag]; e != nil && e.key == key {
		return e
	}
	return nil
}

// add returns the places of a key, made if need be. It is nil if there is no room.
// Requires: mu.
func (t *slots) add(g *slotShard, tag uint64, key string, p *plan, now int64) *places {
	if e := g.all[tag]; e != nil {
		if e.key != key {
			return nil
		}
		if e.plan != p {
			// The limit was changed: what is held stays counted.
			for _, t := range e.lots {
				t.over = t.over || p.limit.Count < e.plan.limit.Count
			}
			e.plan, e.refused, e.ask = p, 0, 0
		}
		return e
	}
	if !t.room(placesBytes + int64(len(key))) {
		return nil
	}
	e := &places{tag: tag, key: strings.Clone(key), plan: p, holders: map[int64]*holder{}, since: now}
	e.root.prev, e.root.next = &e.root, &e.root
	g.all[tag] = e
	g.bytes.Add(placesBytes + int64(len(key)))
	t.keys.Add(1)
	return e
}

func (t *slots) room(bytes int64) bool { return t.bytes.Load()+bytes <= t.maxBytes }

// forget takes out a key. Requires: mu.
func (t *slots) forget(g *slotShard, e *places) {
	delete(g.all, e.tag)
	g.bytes.Add(-(placesBytes + int64(len(e.key)) + int64(len(e.holders))*holderBytes + int64(len(e.lots))*slotBytes))
	t.keys.Add(-1)
}

// free returns the units that can be handed out.
func (e *places) free() (n int64) {
	for _, t := range e.lots {
		if !t.closed() {
			n += t.free()
		}
	}
	return n
}

// held returns the units of all lots.
func (e *places) held() (n int64) {
	for _, t := range e.lots {
		n += t.units
	}
	return n
}

// expire lets go whose time is over by now. Requires: g.mu.
func (e *places) expire(g *slotShard, now int64) {
	for h := e.root.next; h != &e.root && h.expiry <= now; h = e.root.next {
		e.release(g, h)
	}
	kept := e.lots[:0]
	for _, t := range e.lots {
		// Whoever had a place in it has had its time before.
		if t.expiry > now && !(t.lost && t.used == 0) {
			kept = append(kept, t)
		}
	}
	g.bytes.Add(-(int64(len(e.lots)-len(kept)) * slotBytes))
	clear(e.lots[len(kept):])
	e.lots = kept
}

// release takes the place from a holder. Requires: g.mu.
func (e *places) release(g *slotShard, h *holder) {
	if h.lot != nil {
		h.lot.used -= h.units
	}
	h.prev.next, h.next.prev = h.next, h.prev
	delete(e.holders, h.id)
	g.bytes.Add(-holderBytes)
}

// keep notes that a holder has a place until expiry. The ring is in the order of
// the ends; nearly always the newest ends last. Requires: g.mu.
func (e *places) keep(g *slotShard, id, units, expiry int64, t *slotLot) {
	h := &holder{id: id, units: units, expiry: expiry, lot: t}
	if t != nil {
		t.used += units
	}
	at := e.root.prev
	for at != &e.root && at.expiry > expiry {
		at = at.prev
	}
	h.prev, h.next = at, at.next
	at.next.prev, at.next = h, h
	e.holders[id] = h
	g.bytes.Add(holderBytes)
}

// spend gives units to the holder id, from now for the period of the limit, if the
// node holds them for as long. It renews those of one who has them, and reports
// that. stale: it holds them, but not for as long. Requires: g.mu.
func (e *places) spend(g *slotShard, id, units, now int64) (ok, renewed, stale bool) {
	until := now + e.plan.period
	old := e.holders[id]
	if old != nil && old.lot == nil {
		return false, false, false // it is the shared store's
	}
	for _, t := range e.lots {
		free := t.free()
		if old != nil && old.lot == t {
			free += old.units
		}
		// Renewing what one has is allowed, also in a lot that is closed: it is in use.
		if t.closed() && (old == nil || old.lot != t) || free < units {
			continue
		}
		if t.expiry < until {
			stale = true
			continue
		}
		if old != nil {
			e.release(g, old)
		}
		e.keep(g, id, units, until, t)
		e.least = min(e.least, e.free())
		return true, old != nil, false
	}
	return false, false, stale
}

// low reports whether more should be fetched before the last unit is handed out.
func (e *places) low(now int64) bool {
	return e.fetch == nil && now >= e.ask && len(e.lots) < maxLots && e.free()*8 < e.held()
}

// ageing reports whether a lot will soon be too old to be handed out.
func (e *places) ageing(now int64) bool {
	for _, t := range e.lots {
		if !t.lost && e.old(t, now) {
			return e.fetch == nil
		}
	}
	return false
}

func (e *places) old(t *slotLot, now int64) bool { return t.expiry < now+e.plan.period+e.plan.spare/2 }

// idle takes out up to n units that nobody has, the newest lots first, and returns
// what the shared store is told. Requires: g.mu.
func (e *places) idle(g *slotShard, n int64) (back []giveBack) {
	for i := len(e.lots) - 1; i >= 0 && n > 0; i-- {
		t := e.lots[i]
		cut := min(t.free(), n)
		if cut == 0 || t.closed() {
			continue
		}
		back = append(back, e.cut(g, i, cut))
		n -= cut
	}
	return back
}

// excess takes out what nobody has of lots that were fetched under a larger count, and
// returns what the shared store is told. Requires: g.mu.
func (e *places) excess(g *slotShard) (back []giveBack) {
	for i := len(e.lots) - 1; i >= 0; i-- {
		if t := e.lots[i]; t.over && !t.lost && t.free() > 0 {
			back = append(back, e.cut(g, i, t.free()))
		}
	}
	return back
}

// cut takes n free units out of the i-th lot. Requires: g.mu.
func (e *places) cut(g *slotShard, i int, n int64) giveBack {
	t := e.lots[i]
	b := giveBack{key: e.key, limit: e.plan.slots, units: n, receipt: t.id}
	if n == t.units {
		e.lots = append(e.lots[:i], e.lots[i+1:]...)
		g.bytes.Add(-slotBytes)
	} else {
		t.units -= n
		b.rest = t.units
	}
	return b
}

// describe tells what remains: what the node holds, and what the shared store had
// left when it was asked.
func (e *places) describe(now int64) weir.Decision {
	d := weir.Decision{Limit: e.plan.limit.From(weir.FromLease), Remaining: e.free() + e.remaining}
	if last := e.root.prev; last != &e.root {
		d.ResetAfter = micros.Duration(last.expiry - now)
	}
	return d
}

// refusal is the answer to a cost that is refused.
func (e *places) refusal(now int64) weir.Decision {
	d := e.describe(now)
	d.RetryAfter = micros.Duration(max(e.retry-now, 1))
	return d
}

// has reports whether the node can answer o without asking.
func (t *slots) has(tag uint64, o *weir.Op, now int64) bool {
	g := t.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key)
	if e == nil {
		return false
	}
	e.expire(g, now)
	return e.holders[o.ID] != nil || e.free() >= o.Cost
}

// letGo forgets a key, and reports whether anything was known of it.
func (t *slots) letGo(tag uint64, key string) bool {
	g := t.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, key)
	if e == nil {
		return false
	}
	e.lots, e.refused, e.ask = nil, 0, 0
	for h := e.root.next; h != &e.root; h = e.root.next {
		h.lot = nil
		e.release(g, h)
	}
	t.forget(g, e)
	return true
}

// newLot names a lot.
func newLot() int64 { return int64(rand.Uint64()>>1 | 1) }
