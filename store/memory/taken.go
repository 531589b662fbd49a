package memory

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
	"hash/maphash"
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
	versions []*weir.Limit  // of the limit, if no row was found at first
	crowded  bool           // no room was found for a changed row
}

// answerPeek answers a Peek of o, as which an op that refuses without being asked is taken.
func (p *taken) answerPeek(o *weir.Op, now int64) {
	d := o.Decision
	if p.table != nil {
		d = p.peekDecision(o, now)
	}
	o.Answer.Set(d, now, 0, false, false)
}

// peekDecision returns what a Peek of o says.
func (p *taken) peekDecision(o *weir.Op, now int64) weir.Decision {
	a := weir.Ask{Now: now, Cost: p.earlier + o.Cost + o.Headroom, ID: o.ID, Verb: weir.Peek}
	if o.Cost == 0 && o.Headroom == 0 {
		a.Cost = 0
	}
	switch {
	case p.found && p.table.slabs == nil:
		return p.applyToRow(p.segment.cellsAt(p.at), o.Limit, a)
	case p.window != nil:
		return stepWindow(p.window, p.tag, o.Limit, a)
	case p.overflow != nil:
		p.findRow(now)
		p.table.sketches.overflowed.Add(1)
		return p.estimate(p.overflow, o.Limit, a)
	}
	p.findRow(now)
	if !p.prepareRow(o, a) {
		p.overflow = refusing
		return refuseNew(o.Limit, a)
	}
	d, _ := p.stepRow(o.Limit, a, true)
	return d
}

// prepareRow makes the row of a growing key as long as charging it will need, and
// reports false if the store is full: charging must not fail.
func (p *taken) prepareRow(o *weir.Op, a weir.Ask) bool {
	if p.table.slabs == nil || o.Verb == weir.Peek || o.Verb == weir.Refund {
		return true
	}
	a.Verb = o.Verb
	_, ok := p.beginRow(o.Limit, a, false)
	if !p.found {
		p.table.wipeRow(p.segment, p.at)
	}
	return ok
}

// chargeOp does what Resolve decided. moved: rows may stand elsewhere than where look has
// found them.
func (p *taken) chargeOp(o *weir.Op, now int64, moved bool) {
	if p.table == nil {
		return
	}
	d, retry := o.Decision, o.Decision.RetryAfter
	a := weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()}
	switch {
	case p.found && !moved && p.table.slabs == nil:
		d = p.applyToRow(p.segment.cellsAt(p.at), o.Limit, a)
	case p.window != nil:
		// Others may have raised the estimate since the look; the key itself has
		// spent nothing, so what was allowed still is.
		if a.Verb == weir.Spend {
			a.Verb = weir.Force
		}
		d = stepWindow(p.window, p.tag, o.Limit, a)
		d.RetryAfter = retry
	case p.overflow != nil:
		if a.Verb == weir.Refund || !p.overflow.canCharge() {
			o.Answer.Set(o.Decision, o.Now, 0, false, o.Borrowed)
			return
		}
		a.Verb = weir.Force
		p.findRow(now)
		d = p.estimate(p.overflow, o.Limit, a)
		d.RetryAfter = retry
	default:
		p.findRow(now)
		d, _ = p.stepRow(o.Limit, a, true)
	}
	// What was refused for the sake of its reserve stays refused though it is charged: the
	// cost alone would have passed.
	if retry != 0 && d.RetryAfter == 0 && o.Verb != weir.Refund {
		d.RetryAfter = retry
	}
	o.Answer.Set(d, o.Now, o.ChargedAt, o.Charged, o.Borrowed)
}

// eachOtherRow calls f with the places of the rows that the versions of o's limit would have,
// but for its own, and without a limit with that of the changed row.
func (p *taken) eachOtherRow(t *tables, o *weir.Op, f func(l *weir.Limit, at slot)) {
	if len(p.versions) < 2 {
		return
	}
	f(nil, t.changedSlot(o.Key, o.Limit))
	hash := maphash.String(t.seed, o.Key)
	for _, l := range p.versions {
		if tag := tagOfHash(hash, l); tag != p.tag {
			at := t.tableFor(l)
			f(l, slot{table: at, tag: tag, segment: at.segment(tag)})
		}
	}
}
