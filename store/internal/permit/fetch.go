package permit

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// isLow reports whether more should be fetched before the last permit is handed out.
func (s *state) isLow(e *lot.Entry, now clock.Node) bool {
	return now >= s.rest && len(e.Lots()) < mostLots && e.FreeUnits()*8 < max(fetched(e), 1)
}

// oldLot returns a lot that will soon be too old to be handed out, nil if there is none.
func (d *Terms) oldLot(e *lot.Entry, now clock.Node) *lot.Lot {
	for i := range e.Lots() {
		if t := &e.Lots()[i]; !t.Lost && t.Expiry < now.Add(d.period+d.renewal) {
			return t
		}
	}
	return nil
}

// launchFlight begins a flight, if the node is not closing, that fetches need units or more, and
// renews the lots that are old. Zero need fetches if few are left. Requires: the shard of e.
func (d *Decider) launchFlight(ctx context.Context, e *lot.Entry, need int64) bool {
	return e.LaunchFlight(ctx, d.Go, func(f *lot.Flight) { d.makeCalls(e, f, need) })
}

// makeCalls makes the calls of a flight, each of one op: the store takes what several ask of one
// key for a sum. Whoever has waited draws again: a renewed lot may serve it, whatever
// became of the fetch, and a refusal is remembered.
func (d *Decider) makeCalls(e *lot.Entry, f *lot.Flight, need int64) {
	_, g, _ := d.Table.LockEntry(e.Key(), d.limit)
	s, now := e.State.(*state), d.Clock.Now()
	var err error
	if need > 0 || s.isLow(e, now) {
		need = max(need, 1)
		want := d.unitsToFetch(e, s, need, now)
		g.Unlock()
		err = d.fetchLot(g, e, s, f, want, need)
		g.Lock()
	}
	for range e.Lots() {
		if t := d.oldLot(e, d.Clock.Now()); t != nil && err == nil {
			err = d.renewLot(g, e, f, weir.Op{Key: e.Key(), Limit: d.by, Cost: t.Fetched, ID: t.ID})
		}
	}
	e.Flight = nil
	s.trimLots(e, d.Clock.Now())
	f.Land(err)
	g.Unlock()
}

// unitsToFetch is how many units to fetch: within the node's share of what remains, as many as it
// uses, or as are waited for. Requires: the shard of e.
func (d *Decider) unitsToFetch(e *lot.Entry, s *state, need int64, now clock.Node) int64 {
	left, pace := d.limit.Count, max(e.Pace, s.waiting)
	if k := &e.Known; k.Received > 0 && int64(now-k.Sent) < d.idle {
		left = k.Remaining
	}
	s.waiting = 0
	return max(min(left/(d.parts*d.Nodes()), pace), need)
}

// fetchLot fetches a lot under a new name; where the store has fewer units than were asked for
// once more, its share of what is there.
func (d *Decider) fetchLot(g *lot.Shard, e *lot.Entry, s *state, f *lot.Flight, want, need int64) error {
	o := weir.Op{Key: e.Key(), Limit: d.by, Cost: want, ID: int64(d.Rand()>>1 | 1)}
	sent, err := d.askStore(f, &o)
	if left := o.Decision.Remaining; err == nil && !o.Charged && want > need && left >= need {
		o.Cost = max(min(left/(d.parts*d.Nodes()), want-1), need)
		sent, err = d.askStore(f, &o)
	}
	if err != nil {
		d.returnName(&o)
		return err
	}
	now := d.Clock.Now()
	d.Refusals.LearnAnswer(d.Table.TagForKey(o.Key, d.limit), d.limit, need, sent, o.Decision, d.refusal(sent, now))
	g.Lock()
	defer g.Unlock()
	e.Known.Update(o.Decision, sent, now)
	if !o.Charged {
		s.rest = sent.Add(d.idle / 8)
		return nil
	}
	// The count may have been lowered meanwhile.
	e.AdoptLot(lot.Lot{ID: o.ID, Limit: d.by, Fetched: o.Cost, Free: o.Cost, Charged: clock.Store(o.Now), Expiry: sent.Expiry(d.life), Closed: e.Limit.Count < d.limit.Count}, mostLots)
	e.Pace, s.rest = min(4*max(o.Cost, e.Pace), d.limit.Count), 0
	return nil
}

// renewLot renews a lot by o, if it is still there when that is answered. Requires: g, which
// it unlocks meanwhile.
func (d *Decider) renewLot(g *lot.Shard, e *lot.Entry, f *lot.Flight, o weir.Op) error {
	g.Unlock()
	sent, err := d.askStore(f, &o)
	g.Lock()
	if err != nil {
		return err
	}
	switch t := findLot(e, o.ID); {
	case t == nil && o.Charged: // it has expired meanwhile
		d.returnName(&o)
	case t == nil:
	case o.Charged:
		t.Expiry, t.Limit = max(t.Expiry, sent.Expiry(d.life)), d.by
	default:
		t.Lost = true // the store has given its units to others
	}
	return nil
}

// askStore asks the store for a flight, and returns when it did.
func (d *Decider) askStore(f *lot.Flight, o *weir.Op) (clock.Node, error) {
	ops := []weir.Op{*o}
	sent, err := d.Fetch(f, ops)
	if *o = ops[0]; err == nil {
		d.Fetched.Add(1)
	}
	return sent, err
}

// returnName returns a name that the store may have granted units, now or later.
func (d *Decider) returnName(o *weir.Op) {
	t := lot.Lot{ID: o.ID, Limit: d.by, Fetched: o.Cost, Free: o.Cost, Expiry: d.Clock.Now().Add(d.life)}
	d.Returns.AddReturn(lot.Return{Key: o.Key, Lot: t, Again: true})
}
