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

// counted is the algorithm of limits that are counted outside of any store and
// met by no op: they lend their name and counters to metrics.
type counted struct{}

// Name implements weir.Algorithm.
func (counted) Name() string { return InFlightRule }

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

// byClass returns the shares by class, the defaults filled in.
func (s Shares) byClass() [classes]Share {
	return [classes]Share{s.Critical.orPercent(100), s.Default.orPercent(90), s.Sheddable.orPercent(75), s.Background.orPercent(50)}
}
