package shared

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/neighbor"
)

// Reports are what a node has admitted by its tally, and what each server has counted of its
// pushes: each of them once, however often it arrives (I10).
type reports struct {
	admitted int64 // also what was undone: a push may have been made meanwhile
	counted  [3]int64
}

// haveMoved reports whether several servers have counted pushes.
func (r *reports) haveMoved() bool {
	with := 0
	for _, units := range r.counted {
		if units > 0 {
			with++
		}
	}
	return with > 1
}

// isPush reports whether a call that no decision waits for counts what a node has admitted by its
// tally, and is not of a debt.
func (f *fleet) isPush(ops []weir.Op) bool {
	last := &ops[len(ops)-1]
	return f.layout != regions && len(ops) > 1 && last.Verb == weir.Force && !isOfDebt(ops) && f.limitOf(last.Limit.ID()) == atTally
}

// pushed notes that a server has carried out a push. One that has lost writes, or to which
// the key comes from another, may count some twice, as it does not know how many were counted.
func (n *node) pushed(s *server, o *weir.Op) {
	if !o.Charged {
		return
	}
	counted := &n.reports.counted[s.index]
	if *counted += o.Cost; *counted > n.reports.admitted && s.lostAt < n.born && !n.reports.haveMoved() {
		n.fail("%s: the server has counted %d of node %d, which has admitted %d", o.Limit.Name, *counted, n.index, n.reports.admitted)
	}
}

// isOfDebt reports whether the mark of a call is that of no series: it has a longer name.
func isOfDebt(ops []weir.Op) bool {
	_, name, _ := neighbor.Cut(ops[0].Key)
	return len(name) > 13
}

// cloneOps returns a copy of the ops of a call, which is used again.
func cloneOps(ops []weir.Op) []weir.Op {
	ops = append([]weir.Op(nil), ops...)
	for i := range ops {
		ops[i].Key = strings.Clone(ops[i].Key)
	}
	return ops
}
