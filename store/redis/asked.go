package redis

import (
	"sync"

	"github.com/weirlimit/weir"
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

	now      int64
	fits     bool // allowed when it was looked at
	charged  bool
	renewed  bool // charged to a lease that was there before
	decision weir.Decision
}

// rowOf tells a row of plain spends by their twins and the number of their
// constants, and false if g is none.
func rowOf(g []*asked) (row uint32, ok bool) {
	if len(g) > maxOps {
		return 0, false
	}
	for _, a := range g {
		if !a.isSpend() || a.shared || a.plan.twin.Collection {
			return 0, false
		}
		row = row<<8 | a.plan.inRow()
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

// spends reports whether what earlier takes is no longer there for o, an op on
// the same key. Asking twice for one lease is asking once.
func spends(earlier, o *weir.Op) bool {
	if earlier.Verb == weir.Peek || earlier.Verb == weir.Refund {
		return false
	}
	return o.Limit.Traits()&weir.Leases == 0 || earlier.ID != o.ID
}

// need returns what the op means for whether all pass, as weir.Resolve has it.
func (a *asked) need() string {
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

// charge returns when the op is charged, as weir.Resolve has it.
func (a *asked) charge() string {
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

// mode returns whether the script may look at the op by charging it, or must read
// its row again.
func (a *asked) mode() string {
	switch {
	case a.again:
		return "r"
	case a.isSpend() && !a.shared && !a.plan.twin.Collection:
		return "q"
	}
	return "-"
}

// isSpend reports whether the op is a spend that must allow, and no more.
func (a *asked) isSpend() bool {
	return a.Role == weir.Enforce && a.Verb == weir.Spend && a.Headroom == 0 && !a.Penalize
}
