package permit

import (
	"unsafe"

	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

const (
	// mostLots is how many lots of a key a node has at most.
	mostLots = 16
	// stateBytes is what a state takes with all its lots, holderBytes a holder with its
	// place in the map.
	stateBytes  = int64(unsafe.Sizeof(state{})) + 128 + (mostLots-2)*int64(unsafe.Sizeof(lot.Lot{}))
	holderBytes = int64(unsafe.Sizeof(holder{})) + 48
)

// A state is what a concurrency limit adds to an entry: who has its permits.
//
// Invariant: the holders of a lot have Fetched - Free units of it together.
type state struct {
	terms *Terms // of the newest op
	clock *clock.Clock
	// holders are by the names under which they asked, and root is the ring of them, whose
	// time ends first at root.next. spare are holders that can be used again.
	holders map[int64]*holder
	root    holder
	spare   *holder
	// waiting is how many units were waited for since the last fetch began.
	waiting int64
	// rest is until when no more is fetched ahead, as the store has refused.
	rest clock.Node
	// least is the fewest free units since the instant: so many lay idle.
	least int64
	since clock.Node
}

// A holder has units until its time ends.
type holder struct {
	prev, next *holder
	id, units  int64
	// from is the name of the lot that they are of; zero if the store has granted them to
	// the holder itself.
	from int64
	// until is by clock.Clock.Elapsed: a holder goes by a clock of its own, and has its
	// units however much time the node finds lost, or takes for it.
	until int64
}

func newState(d *Terms, c *clock.Clock, now clock.Node) *state {
	s := &state{terms: d, clock: c, holders: map[int64]*holder{}, since: now}
	s.root.prev, s.root.next = &s.root, &s.root
	return s
}

// stateOf returns the state of an entry, nil if it has none or is another decider's.
func stateOf(e *lot.Entry) *state {
	if e == nil {
		return nil
	}
	s, _ := e.State.(*state)
	return s
}

// findLot returns the lot of a name, nil if there is none.
func findLot(e *lot.Entry, name int64) *lot.Lot {
	lots := e.Lots()
	for i := range lots {
		if lots[i].ID == name {
			return &lots[i]
		}
	}
	return nil
}

// hasRoom reports whether there is room for another holder. Requires: g.
func (s *state) hasRoom(g *lot.Shard, e *lot.Entry) bool {
	if s.spare == nil && g.GrowEntry(e, holderBytes) {
		s.spare = &holder{}
	}
	return s.spare != nil
}

// addHolder has a holder, for whom there is room, have units of the lot t, or of the store itself
// if t is nil, for a period from now on. Nearly always the newest ends last.
func (s *state) addHolder(e *lot.Entry, id, units int64, t *lot.Lot) {
	h, at, until := s.spare, s.root.prev, s.clock.Elapsed()+s.terms.period
	for at != &s.root && at.until > until {
		at = at.prev
	}
	s.spare = h.next
	*h = holder{prev: at, next: at.next, id: id, units: units, until: until}
	at.next.prev, at.next = h, h
	if t != nil {
		h.from, t.Free = t.ID, t.Free-units
	}
	s.holders[id] = h
	e.Pinned = true
}

// release takes the units from a holder.
func (s *state) release(e *lot.Entry, h *holder) {
	if t := findLot(e, h.from); t != nil {
		t.Free += h.units
	}
	h.prev.next, h.next.prev = h.next, h.prev
	delete(s.holders, h.id)
	h.next, s.spare = s.spare, h
	e.Pinned = len(s.holders) > 0
}

// expireHolders releases the holders whose time is over at now, and then surrenders the lots:
// a lot outlives its holders. Where time was lost that may not have passed, some may still
// have units of a lot that ends: the store is told nothing, and counts them as long as it
// does.
func (s *state) expireHolders(e *lot.Entry, now clock.Node) {
	elapsed := int64(now) - s.clock.LostTime()
	for h := s.root.next; h != &s.root && h.until <= elapsed; h = s.root.next {
		s.release(e, h)
	}
	for i := range e.Lots() {
		if t := &e.Lots()[i]; now >= t.Expiry && t.Free < t.Fetched {
			t.Lost = true
		}
	}
	e.ExpireLots(now)
}

// trimLots gives back what is of no use: all that is free of lots that are not open, and of
// the others what nobody took for the idle time, the newest lots first. While a flight is
// under way nothing goes back: it renews lots for as many units as they had.
func (s *state) trimLots(e *lot.Entry, now clock.Node) {
	if e.Flight != nil {
		return
	}
	idle := int64(0)
	if int64(now-s.since) >= s.terms.idle {
		idle, s.since = s.least, now
	}
	for i := len(e.Lots()) - 1; i >= 0; i-- {
		switch t := &e.Lots()[i]; {
		case !t.IsOpen():
			e.CutPermits(i, t.Free)
		case idle > 0:
			n := min(t.Free, idle)
			idle -= n
			e.CutPermits(i, n)
			e.Pace = max(fetched(e)/4, 1)
		}
	}
	if s.since == now {
		s.least = e.FreeUnits()
	}
}

// Idle implements lot.Idler: nobody took or released a permit for the idle time. The
// entry stays while there are holders, which return to it.
func (s *state) Idle(e *lot.Entry, now clock.Node) {
	s.expireHolders(e, now)
	s.least, s.since = e.FreeUnits(), now-clock.Node(s.terms.idle)
	s.trimLots(e, now)
}

// fetched returns the units of all lots.
func fetched(e *lot.Entry) (n int64) {
	for i := range e.Lots() {
		n += e.Lots()[i].Fetched
	}
	return n
}
