package shed

import (
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// A Slot is that of one request among those under way on a node. The zero Slot
// is held by none. Make it part of what is kept per request anyway; it must not
// be copied.
type Slot struct {
	counter atomic.Pointer[atomic.Int64] // what Leave takes one from
}

// Enter takes a place for a request of class p, and reports false if there is
// none for its class: then answer what Busy says. It never waits and does not
// allocate. It does nothing if at holds a place already.
//
// With at held, Leave must be called when the request is done. Not safe for
// concurrent use of one Slot.
//
// Guarantee: while the limiter enforces, no request of class p is let in when as
// many as its threshold are under way; and those refused hold nothing, not even
// for a moment, so that a flood of a low class takes no place from a higher one.
func (s *Shedder) Enter(at *Slot, p Priority) bool {
	n := &s.node
	if at.counter.Load() != nil {
		return true
	}
	mode := s.mode(inFlight)
	if mode == Off {
		// Counted all the same, also without a limit: switched on, the limiter
		// knows at once what is under way.
		n.used.Add(1)
		at.counter.Store(&n.used)
		return true
	}
	t, c := n.thresholds.Load(), p.class()
	// Compare, then swap: to add first and take back after would, in a flood of
	// refusals, make the node look full.
	for {
		used := n.used.Load()
		if used >= t.of[c] {
			break
		}
		if n.used.CompareAndSwap(used, used+1) {
			at.counter.Store(&n.used)
			n.names[c].Counters().Add(weir.Allowed)
			return true
		}
	}
	if mode == Shadow {
		n.over.Add(1)
		at.counter.Store(&n.over)
		n.names[c].Counters().Add(weir.ShadowRefused)
		return true
	}
	n.names[c].Counters().Add(weir.Refused)
	return false
}

// Leave gives the place back, whatever was switched meanwhile. It does nothing
// the second time, or if no place is held. Safe for concurrent use.
func (p *Slot) Leave() {
	if c := p.counter.Swap(nil); c != nil {
		c.Add(-1)
	}
}
