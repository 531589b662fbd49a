package lot

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// A Return is the free units of a lot, which the store is to have back. Units are given
// back before their receipt or not at all: later they have come back already. Permits end
// by themselves at the lot's expiry; until then they are offered again if the store did
// not answer.
type Return struct {
	Key string
	Lot
	// Rest is how many permits of the name are kept.
	Rest int64
	// Again: permits are offered once more after an answer, as they may be granted after
	// they were given back.
	Again bool
}

// ReturnOf returns so many units of what a refund gives back.
func ReturnOf(o *weir.Op, units int64) Return {
	return Return{Key: strings.Clone(o.Key), Lot: Lot{ID: o.ID, Limit: o.Limit, Fetched: units, Free: units, Charged: clock.Store(o.FlowsFrom)}}
}

// BuildOp returns the op that gives the units back.
func (b *Return) BuildOp() weir.Op {
	o := weir.Op{Key: b.Key, Limit: b.Limit, Cost: b.Free, ID: b.ID, FlowsFrom: int64(b.Charged), Role: weir.Always, Verb: weir.Refund}
	if b.Rest > 0 {
		o.Cost, o.Verb = b.Rest, weir.Spend
	}
	return o
}

// hasEnded reports whether nothing is to be given back any more: units have come back by
// themselves. What is kept of permits that have ended would be taken anew.
func (b *Return) hasEnded(now clock.Node, wall clock.Store) bool {
	if b.isNamed() {
		return b.Rest > 0 && b.Expiry <= now
	}
	return b.ID != 0 && b.ID <= int64(wall)
}

func (b *Return) isNamed() bool { return b.Limit.Traits()&weir.Leases != 0 }

func (b *Return) size() int64 { return int64(unsafe.Sizeof(*b)) + int64(len(b.Key)) }

// Returns are what waits to be given back, bounded in bytes with their keys. Safe for
// concurrent use.
type Returns struct {
	// Returned and Stranded count units.
	Returned, Stranded atomic.Uint64

	full func()
	max  int64 // bytes
	mu   sync.Mutex
	// waiting are to be given back, and later those that are to be tried again. They take
	// so many bytes. Guarded by mu.
	waiting, later []Return
	bytes          int64
}

// AtOnce is how many returns go into one call.
const AtOnce = 16

// NewReturns returns an empty list of at most bytes. It calls full when there is enough
// for a call; full must neither wait nor lock.
func NewReturns(bytes int64, full func()) *Returns { return &Returns{max: bytes, full: full} }

// HasRoom reports whether n more returns of a key can wait.
func (r *Returns) HasRoom(n int, key string) bool {
	b := Return{Key: key}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes+int64(n)*b.size() <= r.max
}

// Surrender has the free units of a lot returned, which leaves what holds it: nothing else
// makes a return of a lot. A few units of a sliding window are stranded: their return opens
// a batch of the store's, a 64th of the limit, and puts off what is left of that by about
// as long as the lot has lived. From a tenth of a batch on it gives more.
func (r *Returns) Surrender(key string, t *Lot) {
	switch {
	case t.Free == 0 || t.Lost:
	case t.Limit.Grain != 0 && t.Free < t.Limit.Count/640:
		r.Stranded.Add(uint64(t.Free))
	default:
		b := Return{Key: key, Lot: *t}
		if b.isNamed() {
			b.Rest = t.Fetched - t.Free // holders have them
		}
		r.AddReturn(b)
	}
}

// AddReturn has units wait until they are given back, or strands them if there is no room.
func (r *Returns) AddReturn(b Return) {
	r.mu.Lock()
	r.pushReturn(&r.waiting, b)
	enough := len(r.waiting) >= AtOnce
	r.mu.Unlock()
	if enough {
		r.full()
	}
}

// pushReturn requires mu.
func (r *Returns) pushReturn(list *[]Return, b Return) {
	if r.bytes+b.size() > r.max {
		r.Stranded.Add(uint64(b.Free))
		return
	}
	r.bytes += b.size()
	*list = append(*list, b)
}

// TakeDue takes out some of what is given back at now, by the store's time at wall.
// [Returns.FinishCall] must follow for each.
func (r *Returns) TakeDue(now clock.Node, wall clock.Store) []Return {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		n := min(AtOnce, len(r.waiting))
		some := slices.Clone(r.waiting[:n])
		r.waiting = r.waiting[n:]
		some = slices.DeleteFunc(some, func(b Return) bool {
			r.bytes -= b.size()
			return b.hasEnded(now, wall)
		})
		if len(some) > 0 {
			return some
		}
	}
	r.waiting = nil
	return nil
}

// discard drops what waits to be given back of a key, and reports whether that was anything.
func (r *Returns) discard(key string, l *weir.Limit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.bytes
	drop := func(b Return) bool {
		if b.Key != key || b.Limit.ID() != l.ID() {
			return false
		}
		r.bytes -= b.size()
		return true
	}
	r.waiting, r.later = slices.DeleteFunc(r.waiting, drop), slices.DeleteFunc(r.later, drop)
	return r.bytes < before
}

// Outcome is what became of the call of some returns.
type Outcome uint8

const (
	Accepted Outcome = iota // the store has them
	Unsent                  // they were not given back, nor will be
	Unknown                 // they may have been given back
)

// FinishCall ends the call of some returns at now. What was to be kept of permits of which fewer
// are kept by now is not told later.
func (r *Returns) FinishCall(some []Return, now clock.Node, end Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range some {
		switch {
		case end == Unsent, b.isNamed() && b.Expiry > now && (end == Unknown || b.Again):
			b.Again = b.Again && end != Accepted
			r.pushReturn(&r.later, b)
		case end == Accepted:
			r.Returned.Add(uint64(b.Free))
		default:
			r.Stranded.Add(uint64(b.Free))
		}
	}
	if end != Accepted || len(r.later) == 0 {
		return
	}
	r.later = slices.DeleteFunc(r.later, func(old Return) bool {
		drop := slices.ContainsFunc(some, func(b Return) bool { return b.ID == old.ID && b.Key == old.Key && b.isNamed() && b.Rest < old.Rest })
		if drop {
			r.bytes -= old.size()
		}
		return drop
	})
}

// Resume has what was not sent, or not answered, given back again, before what came after it.
func (r *Returns) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting, r.later = append(r.later, r.waiting...), nil
}
