package memory

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
)

// A taken is an op on its way: where its key is kept, one way or another.
type taken struct {
	slot
	// earlier is the cost of ops of the same call on the same key and limit.
	earlier  int64
	again    bool           // an earlier op has the same key and limit
	window   *sketch.Window // of an approximate limit
	overflow *overflow      // for a key without a row
	full     bool           // no room was found for a row
}

// look fills the answer to a Peek.
func (p *taken) look(o *weir.Op, now int64) {
	o.Now = now
	if p.table == nil {
		return
	}
	a := weir.Ask{Now: now, Cost: p.earlier + o.Cost + o.Headroom, ID: o.ID, Verb: weir.Peek}
	if o.Cost == 0 && o.Headroom == 0 {
		a.Cost = 0
	}
	switch {
	case p.found && p.table.slabs == nil:
		o.Decision = o.Limit.Algorithm.Step(p.segment.row(p.at), o.Limit, a)
	case p.window != nil:
		o.Decision = stepWindow(p.window, p.tag, o.Limit, a)
	case p.overflow != nil:
		p.find(now)
		o.Decision = p.estimate(p.overflow, o.Limit, a)
		p.table.sketches.overflowed.Add(1)
	default:
		p.find(now)
		if !p.ready(o, a) {
			p.overflow = refusing
			o.Decision = refuseNew(o.Limit, a)
			return
		}
		o.Decision, _ = p.step(o.Limit, a, true)
	}
}

// ready makes the row of a growing key as long as charging it will need, and
// reports false if the store is full: charging must not fail.
func (p *taken) ready(o *weir.Op, a weir.Ask) bool {
	if p.table.slabs == nil || o.Verb == weir.Peek || o.Verb == weir.Refund {
		return true
	}
	a.Verb = o.Verb
	_, ok := p.begin(o.Limit, a, false)
	if !p.found {
		p.table.wipe(p.segment, p.at)
	}
	return ok
}

// charge does what Resolve decided. moved: rows may stand elsewhere than where look has
// found them.
func (p *taken) charge(o *weir.Op, now int64, moved bool) {
	if p.table == nil {
		return
	}
	retry := o.Decision.RetryAfter
	a := weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()}
	switch {
	case p.found && !moved && p.table.slabs == nil:
		o.Decision = o.Limit.Algorithm.Step(p.segment.row(p.at), o.Limit, a)
		keepRefusal(o, retry)
	case p.window != nil:
		// Others may have raised the estimate since the look; the key itself has
		// spent nothing, so what was allowed still is.
		if a.Verb == weir.Spend {
			a.Verb = weir.Force
		}
		o.Decision = stepWindow(p.window, p.tag, o.Limit, a)
		o.Decision.RetryAfter = retry
	case p.overflow != nil:
		if a.Verb == weir.Refund || !p.overflow.keeps() {
			o.Charged = false
			return
		}
		a.Verb = weir.Force
		p.find(now)
		o.Decision = p.estimate(p.overflow, o.Limit, a)
		o.Decision.RetryAfter = retry
	default:
		p.find(now)
		o.Decision, _ = p.step(o.Limit, a, true)
		keepRefusal(o, retry)
	}
}

// keepRefusal keeps an op refused that was charged though it was refused for the
// sake of its reserve: the cost alone would have passed.
func keepRefusal(o *weir.Op, retry time.Duration) {
	if retry != 0 && o.Decision.RetryAfter == 0 && o.Verb != weir.Refund {
		o.Decision.RetryAfter = retry
	}
}
