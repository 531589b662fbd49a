package eventual

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// A tally is what the node has admitted of a key and the store may not have counted.
type tally struct {
	terms *Terms // by which it is pushed
	// open is what is in no push yet; less than none is a credit, of units that were
	// charged at charged, zero for unknown.
	open, charged int64
	// receipt is that of a credit; of windows that of all units.
	receipt int64
	push    push
}

// units returns how many there are, without a credit.
func (t *tally) units() int64 { return max(t.open, 0) + t.push.units }

// isOpen reports whether the store is to hear of something, or to get a credit back.
func (t *tally) isOpen() bool { return t.open != 0 || t.push.units > 0 }

// slackOf returns the slack of an entry, the zero lot if it must ask for some.
func slackOf(e *lot.Entry) *lot.Lot {
	if lots := e.Lots(); len(lots) > 0 {
		return &lots[0]
	}
	return &lot.Lot{}
}

// addUnits puts units into the tally, or takes them out. What is in it is not surrendered with
// the slack.
func (t *tally) addUnits(e *lot.Entry, units int64) {
	t.open += units
	s := slackOf(e)
	s.Free = max(s.Fetched-t.units(), 0)
}

// unitsLeft returns how many units may be admitted before the store is asked.
func (t *tally) unitsLeft(e *lot.Entry) int64 {
	return min(slackOf(e).Fetched, e.Known.Remaining) - t.open - t.push.units
}

// isPushDue reports whether it is time to push before the interval is over: half the slack is
// used, or an eighth when four fifths of the limit are. Where units trickle in the latter
// says nothing: a limit that is in use is always nearly used up.
func (t *tally) isPushDue(e *lot.Entry) bool {
	slack, own := slackOf(e).Fetched, t.open+t.push.units
	return slack > 0 && (own*2 >= slack || own*8 >= slack && !t.terms.trickles && (e.Known.Remaining-own)*5 < e.Limit.Burst)
}

// canRefund reports whether the tally takes units back: as a credit, the slack at most.
func (t *tally) canRefund(e *lot.Entry, o *weir.Op) bool {
	return (t.terms.refiller != nil || o.ID == t.receipt-t.terms.batch) && t.open-o.Cost >= -slackOf(e).Fetched
}

// refundUnits takes back the units of a refund, and reports whether it does. Beyond what was
// not pushed they are a credit, of the slack at most.
func (t *tally) refundUnits(e *lot.Entry, o *weir.Op) bool {
	if !t.canRefund(e, o) {
		return false
	}
	if t.terms.refiller != nil && (t.open >= 0 || o.ID < t.receipt) {
		t.receipt = o.ID
	}
	if t.open >= 0 || o.FlowsFrom < t.charged {
		t.charged = o.FlowsFrom
	}
	t.addUnits(e, -o.Cost)
	return true
}

// expireSlack ends the slack whose window is over, and a credit whose window is, or whose units
// have flowed back.
func (t *tally) expireSlack(e *lot.Entry, now clock.Node, wall int64) {
	if e.ExpireLots(now); t.open < 0 && wall >= min(t.receipt, lot.DrawableUntil(t.terms.limit, t.receipt)) {
		t.addUnits(e, -t.open)
	}
}

// receiptOf returns the receipt of the units that were admitted last.
func (t *tally) receiptOf(e *lot.Entry, now clock.Node, wall int64) int64 {
	d := t.terms
	if d.refiller != nil {
		// When all that the store knows of and all that it does not has flowed back.
		wall += int64(max(e.Known.Reset-now, 0))
		return d.refiller.FlowsFrom(d.limit, wall, wall, t.units())
	}
	if wall >= lot.DrawableUntil(d.limit, t.receipt) {
		t.receipt = lot.ReceiptAt(d.by, wall)
	}
	return t.receipt - d.batch
}

// slackShare returns how much slack a node asks for.
func (d *Decider) slackShare() int64 { return d.slack.Count / d.Nodes() }

// tallyOf returns the tally of an entry under this limit, nil if it has none.
func (d *Decider) tallyOf(e *lot.Entry) (t *tally) {
	if e != nil && e.Limit == d.limit {
		t, _ = e.State.(*tally)
	}
	return t
}
