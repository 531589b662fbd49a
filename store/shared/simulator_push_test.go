package shared

import (
	"strings"

	"github.com/weirlimit/weir"
)

// Reports are what a node has admitted by its tally, and what the server has counted of its
// pushes: each of them once, however often it arrives (I10).
type reports struct {
	admitted, counted int64
	pushes            int // that the server has counted
}

// isPush reports whether a call counts what a node has admitted by its tally.
func (f *fleet) isPush(ops []weir.Op, isForeground bool) bool {
	last := &ops[len(ops)-1]
	return !isForeground && len(ops) > 1 && last.Verb == weir.Force && f.limitOf(last.Limit.ID()) == atTally
}

// pushed notes that the server has carried out a push. One that has lost writes may count
// some twice, as it no longer knows how many it has counted.
func (n *node) pushed(o *weir.Op) {
	if !o.Charged {
		return
	}
	n.reports.pushes++
	if n.reports.counted += o.Cost; n.reports.counted > n.reports.admitted && n.server.lostAt < n.born {
		n.fail("%s: the server has counted %d of node %d, which has admitted %d", o.Limit.Name, n.reports.counted, n.index, n.reports.admitted)
	}
}

// tallies notes before a request what it may put into the tally, and returns that.
func (n *node) tallies(ops []weir.Op) (units int64) {
	for i := range ops {
		if o := &ops[i]; o.Verb == weir.Spend && n.limitOf(o.Limit.ID()) == atTally {
			units += o.Cost
		}
	}
	n.reports.admitted += units
	return units
}

// tallied takes that back when the request has ended, but for what a push may report that
// was made since there were so many. What was admitted is noted then.
func (n *node) tallied(units int64, pushes int) {
	if units > 0 && n.reports.pushes == pushes && !n.isPushing() {
		n.reports.admitted -= units
	}
}

// isPushing reports whether a push is under way.
func (n *node) isPushing() bool {
	l := n.limits[atTally]
	_, g, e := n.store.table.Find(l.Name, l)
	defer g.Unlock()
	return e != nil && e.Flight != nil
}

// cloneOps returns a copy of the ops of a call, which is used again.
func cloneOps(ops []weir.Op) []weir.Op {
	ops = append([]weir.Op(nil), ops...)
	for i := range ops {
		ops[i].Key = strings.Clone(ops[i].Key)
	}
	return ops
}
