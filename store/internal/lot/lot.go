package lot

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
)

// A Lot is what one fetch brought: units, or permits, that the store has counted.
//
// Invariant: 0 <= Free <= Fetched, and Fetched never grows. Two fetches of one limit
// may become one lot, which ends, and was charged, as the earlier of them.
type Lot struct {
	// ID names the lot to the store: the receipt of units, the name of permits.
	ID int64
	// Limit is what the store counted it by. It is returned by this one only.
	Limit         *weir.Limit
	Fetched, Free int64
	// Charged is when the store counted it; zero means that this is not known.
	Charged clock.Store
	// Expiry is when the node stops to draw from it, before its units stop to count.
	Expiry clock.Node
	// Lost: the store no longer counts it. Nothing is drawn from it nor returned.
	Lost bool
	// Closed: it was fetched under a larger count. Nothing is drawn from it.
	Closed bool
}

// IsOpen reports whether the lot can be drawn from.
func (t *Lot) IsOpen() bool { return !t.Lost && !t.Closed }

// A Hold notes what a draw took, so that exactly that can be undone. The zero value is
// ready, and so is one that was undone, or whose Parts were cut to none.
type Hold struct {
	tag uint64
	key string
	// Parts are the lots that were drawn from; their Free is what was taken.
	Parts []Lot
}

// Key returns the key of what was noted, which is the entry's own copy.
func (h *Hold) Key() string { return h.key }

// An Entry is what the node holds and knows of one key. All of it is guarded by its
// shard of the table.
type Entry struct {
	// What most draws look at comes first, in few cache lines.
	key  string
	lots []Lot
	// Limit is that of the newest op; lots keep their own.
	Limit *weir.Limit
	// Flight is the call under way, nil if there is none: at most one at a time.
	Flight *Flight
	used   clock.Node // to the nearest few milliseconds
	life   int64      // microseconds that it may lie idle
	// Known is what the store answered last.
	Known Known
	space [2]Lot // of lots, unless there are more

	// Pace is how many units are fetched at a time: what was used of a lot that expired.
	Pace int64
	// Pinned: the entry stays in the table, as what it knows must not be lost.
	Pinned bool
	// State is what a decider adds.
	State any

	prev, next *Entry // ring in the order of use, among entries of a like life
	tag        uint64
	size       int64 // bytes
	returns    *Returns
}

// Key returns the key, which is the entry's own copy.
func (e *Entry) Key() string { return e.key }

// Lots returns the lots, oldest first, valid until the shard is unlocked.
func (e *Entry) Lots() []Lot { return e.lots }

// FreeUnits returns how many units can be drawn of lots that have not expired.
func (e *Entry) FreeUnits() (n int64) {
	for i := range e.lots {
		if e.lots[i].IsOpen() {
			n += e.lots[i].Free
		}
	}
	return n
}

// AddFree returns the answer a of a store, to which what is free remains as well.
func (e *Entry) AddFree(a weir.Answer) weir.Answer {
	a.Decision.Remaining += e.FreeUnits()
	return a
}

// hasSlack reports whether the lots are of what the limit may be overshot by.
func (e *Entry) hasSlack() bool { return len(e.lots) > 0 && e.lots[0].Limit.ID() != e.Limit.ID() }

// DrawUnits takes cost units, the oldest first, if as many can be drawn at now, and returns how
// many are left then. What has expired by then is surrendered. A nil h notes nothing.
func (e *Entry) DrawUnits(cost int64, now clock.Node, h *Hold) (left int64, ok bool) {
	e.ExpireLots(now)
	if left = e.FreeUnits() - cost; left < 0 {
		return left, false
	}
	for i := 0; cost > 0; i++ {
		t := &e.lots[i]
		n := min(t.Free, cost)
		if n == 0 || !t.IsOpen() {
			continue
		}
		t.Free -= n
		cost -= n
		if h != nil {
			e.RecordDraw(h, t, n)
		}
	}
	return left, true
}

// RecordDraw notes in h that n units of t were drawn.
func (e *Entry) RecordDraw(h *Hold, t *Lot, n int64) {
	h.tag, h.key = e.tag, e.key
	h.Parts = append(h.Parts, *t)
	h.Parts[len(h.Parts)-1].Free = n
}

// ExpireLots surrenders the lots whose time is over at now.
func (e *Entry) ExpireLots(now clock.Node) {
	for i := range e.lots {
		if now >= e.lots[i].Expiry {
			e.surrenderExpired(now)
			break
		}
	}
}

func (e *Entry) surrenderExpired(now clock.Node) {
	for i := len(e.lots) - 1; i >= 0; i-- {
		if t := &e.lots[i]; now >= t.Expiry {
			if t.Free > 0 {
				e.Pace = max(t.Fetched-t.Free, 1)
			}
			e.surrender(i)
		}
	}
}

// ExpireBy has all lots expire at until at the latest: the limit has changed.
func (e *Entry) ExpireBy(until clock.Node) {
	for i := range e.lots {
		e.lots[i].Expiry = min(e.lots[i].Expiry, until)
	}
}

// AdoptLot takes over a lot. Of units there are most lots: beyond that one that is spent makes
// room, or two of one limit become one; else the oldest is surrendered, as a decision waits
// for what was fetched last. Of permits there must be fewer than most.
func (e *Entry) AdoptLot(t Lot, most int) {
	if n := len(e.lots); n >= most {
		if i := slices.IndexFunc(e.lots, func(a Lot) bool { return a.Free == 0 }); i >= 0 {
			e.lots = slices.Delete(e.lots, i, i+1)
		} else if a := &e.lots[n-1]; a.Limit != t.Limit {
			e.surrender(0)
		} else {
			a.Free, a.Fetched = a.Free+t.Free, a.Fetched+t.Fetched
			a.ID, a.Charged, a.Expiry = min(a.ID, t.ID), min(a.Charged, t.Charged), min(a.Expiry, t.Expiry)
			return
		}
	}
	e.lots = append(e.lots, t)
}

// PutBack puts cost units of the limit l back that were drawn with a receipt, and reports
// whether a lot that is held takes them. A bucket's receipts grow, and zero stands for
// any of them: the lots of earlier ones were there when the units were drawn. Of another
// price the units are worth more or less, and the lot does not take them; nor does one of
// other counters, which a decider of another mode may have on the same key.
func (e *Entry) PutBack(l *weir.Limit, cost, receipt int64, now clock.Node) bool {
	t := e.lotOf(l, cost, receipt, now)
	if t != nil {
		t.Free += cost
	}
	return t != nil
}

// CanPutBack reports whether Refund would put the units back.
func (e *Entry) CanPutBack(l *weir.Limit, cost, receipt int64, now clock.Node) bool {
	return e.lotOf(l, cost, receipt, now) != nil
}

func (e *Entry) lotOf(l *weir.Limit, cost, receipt int64, now clock.Node) *Lot {
	for i := range e.lots {
		t := &e.lots[i]
		same := t.ID == receipt
		if t.Limit.Traits()&weir.Refills != 0 {
			same = t.Limit.Count == l.Count && t.Limit.Period == l.Period && (receipt == 0 || t.ID <= receipt)
		}
		if same && t.Limit.ID() == l.ID() && now < t.Expiry && !t.Lost && cost <= t.Fetched-t.Free {
			return t
		}
	}
	return nil
}

// CutPermits surrenders n free permits of the i-th lot, which ends with its last one. The store
// is asked to keep the rest under the lot's name.
func (e *Entry) CutPermits(i int, n int64) {
	t := &e.lots[i]
	part := *t
	part.Free = n
	e.returns.Surrender(e.key, &part)
	if t.Fetched, t.Free = t.Fetched-n, t.Free-n; t.Fetched == 0 {
		e.lots = slices.Delete(e.lots, i, i+1)
	}
}

// surrender takes out the i-th lot and has its free units returned.
func (e *Entry) surrender(i int) {
	e.returns.Surrender(e.key, &e.lots[i])
	e.lots = slices.Delete(e.lots, i, i+1)
}

// Known is what the store last answered of a key. The zero value is that it was not asked.
type Known struct {
	Remaining int64
	// Sent and Received are when it was asked and answered, and Reset when all has come back.
	Sent, Received, Reset clock.Node
	// Moved: it was answered by a server that keeps the key while its own is lost.
	Moved bool
}

// LabelLimit returns the limit as it stands in decisions from a source, if the key's own server was
// asked.
func (k *Known) LabelLimit(l *weir.Limit, source weir.Source) *weir.Limit {
	if k.Moved {
		source = weir.FromSuccessor
	}
	return l.From(source)
}

// Update takes over a decision of the store on a call that was sent at sent. Of answers
// that may have crossed the lower holds.
func (k *Known) Update(d weir.Decision, sent, now clock.Node) {
	left := d.Remaining
	if k.Received > 0 && sent <= k.Received {
		left = min(left, k.Remaining)
	}
	*k = Known{Remaining: left, Sent: sent, Received: max(now, 1), Reset: sent.Add(micros.Of(d.ResetAfter)), Moved: d.Guarantee().Source == weir.FromSuccessor}
}
