package shed

import (
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// node counts what is under way on this node.
type node struct {
	// thresholds has the limit 0 while there is none; the mode is then Off.
	thresholds atomic.Pointer[thresholds]
	// names has a limit for each class, for its counters: see counted.
	names [classes]*weir.Limit

	_ [64]byte // every request writes what follows
	// used is the requests that hold a place, over those that a shadow would
	// have refused. Kept apart, a shadow refuses as many as it would in earnest.
	used, over atomic.Int64
	_          [64]byte
}

// thresholds is the in-flight limit by class. Immutable.
type thresholds struct {
	limit  int64
	shares [classes]Share
	// of[c]: a request of class c is refused while so many are under way.
	of [classes]int64
}

// newThresholds checks a limit, 0 for none, and its shares. A share is rounded
// down, but is one request at least, unless it is 0 %.
func newThresholds(limit int64, shares [classes]Share) (*thresholds, error) {
	if limit < 0 || limit > maxInFlight {
		return nil, fmt.Errorf("in_flight.limit %d must be between 1 and %d; to have none leave it out", limit, maxInFlight)
	}
	t := &thresholds{limit: limit, shares: shares}
	for c, share := range shares {
		if c > 0 && share.percent() > shares[c-1].percent() {
			return nil, fmt.Errorf("in_flight.shares.%s %s is larger than the %s of %s: the class that matters less must be refused first",
				priorityNames[c], share, shares[c-1], priorityNames[c-1])
		}
		if p := share.percent(); p > 0 {
			t.of[c] = max(limit*p/100, 1)
		}
	}
	return t, nil
}

func (n *node) build(o *InFlightOptions) error {
	t, err := newThresholds(o.Limit, o.Shares.byClass())
	if err != nil {
		return err
	}
	n.thresholds.Store(t)
	for c := range n.names {
		n.names[c] = &weir.Limit{Name: limiterNames[inFlight] + "_" + priorityNames[c], Algorithm: counted{}, Count: 1, Period: 1e6}
		if err := n.names[c].Compile(); err != nil {
			return err
		}
	}
	return nil
}

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

// counted is the algorithm of limits that are counted outside of any store and
// met by no op: they lend their name and counters to metrics.
type counted struct{}

// Name implements weir.Algorithm.
func (counted) Name() string { return "in_flight" }

// Traits implements weir.Algorithm.
func (counted) Traits() weir.Traits { return 0 }

// Prepare implements weir.Algorithm.
func (counted) Prepare(l *weir.Limit) error {
	l.Cells, l.Layout = 1, "none"
	return nil
}

// Step implements weir.Algorithm. A store that is asked all the same lets
// nothing pass: it cannot know what is under way.
func (counted) Step(_ []int64, l *weir.Limit, _ weir.Ask) weir.Decision {
	return weir.Decision{Limit: l, RetryAfter: weir.Never}
}
