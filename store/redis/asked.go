package redis

import (
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// asked is an op on its way to a script, and what came of it.
type asked struct {
	*weir.Op
	plan *plan
	tag  string
	// look is what must be there: the cost, what is reserved, and what earlier ops
	// of the request take from the same key.
	look   int64
	again  bool // an earlier op has the same key
	shared bool // another op has the same key
	pool   bool // the op after this one is its pool
	elders []*plan

	now      int64
	fits     bool // allowed when it was looked at
	charged  bool
	renewed  bool // charged to a lease that was there before
	decision weir.Decision
}

// spendRow tells a row of plain spends by their twins and the number of their
// constants, and false if g is none.
func spendRow(g []*asked) (row uint32, ok bool) {
	if len(g) > maxOps {
		return 0, false
	}
	for _, a := range g {
		if !transport.IsSpend(a.Op) || a.shared || a.plan.twin.Collection || a.elders != nil {
			return 0, false
		}
		row = row<<8 | a.plan.numberInRow()
	}
	return row, len(g) > 0
}

// work is what deciding several ops takes, used again.
type work struct {
	all   []asked
	group []*asked
	isRow bool // of plain spends
}

var works = sync.Pool{New: func() any { return new(work) }}

// recycle forgets the request: it is the caller's.
func (w *work) recycle() {
	clear(w.all)
	clear(w.group)
	w.all, w.group = w.all[:0], w.group[:0]
	works.Put(w)
}

// encodeNeed returns what the op means for whether all pass, as weir.Resolve has it.
func (a *asked) encodeNeed() string {
	switch a.Role {
	case weir.Enforce, weir.Ban:
		if a.Verb != weir.Force && a.Verb != weir.Refund {
			return "m"
		}
	case weir.Own:
		switch {
		case a.Verb == weir.Force:
		case a.pool:
			return "o"
		default:
			return "m"
		}
	}
	return "-"
}

// encodeCharge returns when the op is charged, as weir.Resolve has it.
func (a *asked) encodeCharge() string {
	switch {
	case a.Verb == weir.Peek:
		return "n"
	case a.Role == weir.Enforce && a.Penalize:
		return "a"
	case a.Role == weir.Shadow, a.Role == weir.Own:
		return "s"
	case a.Role == weir.Ban:
		return "b"
	}
	return "p"
}

// encodeMode returns whether the script may look at the op by charging it, or must read
// its row again.
func (a *asked) encodeMode() string {
	switch {
	case a.again:
		return "r"
	case transport.IsSpend(a.Op) && !a.shared && !a.plan.twin.Collection:
		return "q"
	}
	return "-"
}
