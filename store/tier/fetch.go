package tier

import (
	"context"
	"math"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/transport"
)

// leastShare is the smallest part of a limit that is worth fetching: a node's
// share of fewer units is decided by the shared store.
const leastShare = 8

// An asked is what the shared store said to a fetch.
type asked struct {
	weir.Op // of the limit
	// capped: it was refused, as other regions must know of more first.
	capped bool
	// found is what an earlier fetch had brought whose answer was lost.
	found lot
}

// A fetch is a call under way that brings units. All who need them wait for it.
type fetch struct {
	*transport.Flight
	// refused: costs of so many units or more were refused. Zero means none.
	refused int64
}

// spendLeased spends cost units of key from what the node holds, and fetches
// more when it holds too little. It returns the store's time as well.
func (s *Store) spendLeased(ctx context.Context, p *plan, tag uint64, key string, cost int64) (weir.Decision, int64, error) {
	nodes := s.nodes.count()
	switch {
	case p.limit.Burst/nodes < leastShare && s.nodes.steady(p.ttl):
		// Nobody holds units, and so the whole burst can be spent.
		return s.spendStrict(ctx, p, p.limit, tag, key, cost)
	case p.limit.Burst/nodes < leastShare || cost > p.largest(nodes):
		return s.spendStrict(ctx, p, p.by(cost), tag, key, cost)
	}
	g := s.leases.shard(tag)
	ctx = s.link.Begin(ctx)
	for {
		g.mu.Lock()
		now := s.link.now()
		e := s.leases.add(g, tag, key, p, now)
		if e == nil {
			g.mu.Unlock()
			return s.spendStrict(ctx, p, p.by(cost), tag, key, cost)
		}
		if d, ok := s.spendHeld(g, e, cost, now); ok {
			g.mu.Unlock()
			return d, s.wall(), nil
		}
		f := e.fetch
		if f == nil {
			var err error
			if f, err = s.startFetch(ctx, g, e, cost); err != nil {
				g.mu.Unlock()
				return weir.Decision{}, 0, err
			}
		}
		g.mu.Unlock()
		if err := s.link.Await(ctx, f.Flight); err != nil {
			return weir.Decision{}, 0, err
		}
		if d, ok := s.refusedBy(g, tag, key, p, f, cost); ok {
			return d, s.wall(), nil
		}
	}
}

// refusedBy answers a spend that has waited for a fetch which was refused, even if
// the store may have units again by now: else who has bad luck would ask until its
// time is over.
func (s *Store) refusedBy(g *leaseShard, tag uint64, key string, p *plan, f *fetch, cost int64) (weir.Decision, bool) {
	if f.refused == 0 || cost < f.refused {
		return weir.Decision{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, key, p.limit)
	if e == nil {
		return weir.Decision{}, false
	}
	return e.refusal(s.link.now()), true
}

// largest is the largest cost that is spent from a lease.
func (p *plan) largest(nodes int64) int64 {
	return max(p.lendable()/(p.share4*nodes), 1)
}

// spendHeld decides a spend by what the node holds, if it can be: from its units,
// or because a refusal still holds. It does not allocate. Requires: g.mu.
func (s *Store) spendHeld(g *leaseShard, e *lease, cost, now int64) (weir.Decision, bool) {
	if e.plan.counting != nil {
		return s.spendTally(g, e, cost, now)
	}
	g.touch(e, now)
	if now >= e.lots[0].expiry && e.lots[0].units > 0 || now >= e.lots[1].expiry && e.lots[1].units > 0 {
		s.expire(e, now)
	}
	if e.spend(cost) {
		s.spentHeld.Add(1)
		if e.low(now) {
			s.refill(g, e)
		}
		return e.describe(now), true
	}
	if e.refuses(cost, now) {
		s.refusals.Recalled.Add(1)
		return e.refusal(now), true
	}
	return weir.Decision{}, false
}

// expire gives back the lots of e that have expired. Requires: mu.
func (s *Store) expire(e *lease, now int64) {
	var back [2]giveBack
	list := back[:0]
	e.expire(now, &list)
	s.leases.returns.add(list)
}

// refill fetches more before the last unit is spent, if a call is free. Nobody
// waits for it. Requires: g.mu.
func (s *Store) refill(g *leaseShard, e *lease) {
	if _, err := s.startFetch(context.Background(), g, e, 1); err != nil {
		return // whoever finds nothing left will ask, and hear why
	}
}

// startFetch begins a fetch of at least need units, for whoever ctx is of; it goes on
// when that ends. Requires: g.mu.
func (s *Store) startFetch(ctx context.Context, g *leaseShard, e *lease, need int64) (*fetch, error) {
	f, err := s.launch(func(f *fetch) { s.runFetch(ctx, g, e, f, need) })
	if err == nil {
		e.fetch = f
	}
	return f, err
}

// launch has run make calls of the shared store.
func (s *Store) launch(run func(f *fetch)) (*fetch, error) {
	f := &fetch{Flight: transport.NewFlight()}
	if err := s.link.Launch(func() { run(f) }); err != nil {
		return nil, err
	}
	return f, nil
}

// runFetch asks the shared store for units. Where it has fewer than were asked
// for it is asked once more.
func (s *Store) runFetch(ctx context.Context, g *leaseShard, e *lease, f *fetch, need int64) {
	nodes := s.nodes.count()
	g.mu.Lock()
	want := max(e.want(nodes, s.link.now()), need)
	p, key := e.plan, e.key
	if p.regions > 0 {
		want = max(min(want, p.most/(2*nodes)), need)
	}
	want = max(want, e.number.lost)
	// What brings no more than a decision needs is worth no number.
	numbered := p.marks != nil && (want > need || e.number.lost > 0)
	g.mu.Unlock()
	ask := func(units int64) (asked, int64, error) {
		if numbered {
			return s.askNumbered(e, p, units, func(ops []weir.Op) (int64, error) { return s.fetchCall(ctx, f, ops) })
		}
		return s.ask(ctx, f, p, e.tag, key, units)
	}
	o, sent, err := ask(want)
	if err == nil && !o.Charged && want > need && e.second(o.Decision, need) {
		// What is there is divided as well; if it is less than needed, the store
		// says until when.
		if left := o.Decision.Remaining; left >= need {
			want = max(left/(p.share4*nodes), need)
		} else {
			want = need
		}
		o, sent, err = ask(want)
	}
	if err == nil {
		s.remember(e.tag, p.limit, 0, sent, o.Decision, false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e.fetch = nil
	defer f.Land(err)
	if err != nil {
		return
	}
	e.heardOf(o.Decision, sent, s.link.now())
	if o.Charged {
		s.fetched.Add(1)
		t := o.found
		if t.units == 0 {
			t = p.brought(&o, sent)
		}
		s.lent(e, p, t, o.Decision.Remaining)
		g.move(e)
		return
	}
	if o.capped {
		// The others are told at once: it is worth asking again soon.
		retry := micros.Of(min(o.Decision.RetryAfter, time.Hour))
		e.refused, e.retry, e.ask = need, sent+retry, sent+min(retry, p.brief)/16
		if o.Decision.RetryAfter == weir.Never {
			e.retry = math.MaxInt64
		}
		f.refused = need
		return
	}
	e.scarce = p.trickle > 0
	e.refused, e.retry = need, math.MaxInt64
	e.ask = sent + p.brief
	if o.Decision.RetryAfter != weir.Never {
		e.retry = later(sent, micros.Of(o.Decision.RetryAfter))
		e.ask = min(e.ask, e.retry)
	}
	if e.scarce && want > need {
		e.refused = 1 // until a lot is there, nothing is fetched
	}
	f.refused = e.refused
}

// second reports whether the store is asked once more after it has refused a lot.
// While units only trickle in it is not: they would be fetched one by one.
func (e *lease) second(d weir.Decision, need int64) bool {
	return e.plan.trickle == 0 || !e.scarce && d.Remaining >= need
}

// atRisk is how much of its use a node holds at most, in microseconds, beside a few
// units: so much is lost when the node is killed. A lot is asked for when three
// quarters of the one before are used, so that it lasts for a third to two thirds of
// that time.
const atRisk = 250_000

// want is how many units to fetch: within the node's share of what remains, as
// many as it uses. Requires: mu.
func (e *lease) want(nodes, now int64) int64 {
	p := e.plan
	parts := p.share4 * nodes
	if e.scarce {
		return max(p.trickle/parts, 1)
	}
	pace, quick := e.pace, min(p.brief, atRisk)
	switch lasted := now - e.asked; {
	case lasted < quick/16:
		pace *= 4
	case lasted < quick/4:
		pace *= 2
	case pace > few && lasted > quick/2:
		// It is used more slowly than it was.
		pace = max(int64(float64(pace)*float64(quick/2)/float64(lasted)), few)
		e.pace = pace
	case lasted < p.ttl/8:
		pace = max(pace, min(4*pace, few))
	case lasted < p.ttl/2:
		pace = max(pace, min(2*pace, few))
	}
	left := p.lendable()
	if e.asked > 0 && now < e.reset && (!p.bucket || now-e.asked < p.ttl) {
		left = min(e.remaining, left)
	}
	return max(min(left/parts, pace), 1)
}

// brought returns the units of a fetch by p that was sent at sent and answered.
func (p *plan) brought(o *asked, sent int64) lot {
	units := o.Cost
	t := lot{units: units, fetched: units, expiry: sent + p.life(units), receipt: o.Receipt(), charged: o.Now}
	if by := p.lender.SpendBy(p.limit, t.receipt); by != math.MaxInt64 {
		t.expiry = sent + by - o.Now
	}
	return t
}

// lent takes over the units of a fetch that asked by the plan p, of which the store has
// so many left. Requires: mu.
func (s *Store) lent(e *lease, p *plan, t lot, left int64) {
	units := t.units
	if e.plan != p {
		// The limit was changed meanwhile.
		if !p.costsAs(e.plan) {
			s.leases.returns.add([]giveBack{{key: e.key, limit: p.by(units), units: units, receipt: t.receipt, charged: t.charged, bound: true}})
			return
		}
		t.expiry = min(t.expiry, s.link.now()+e.plan.brief)
	}
	e.take(t)
	e.refused, e.ask = 0, 0
	e.pace = min(max(units, e.pace), weir.MaxCost/4)
	if left >= units {
		e.scarce = false
	}
}

// ask spends units of key on the shared store for a fetch, in a slot that is held. It
// returns the node's time at which it was asked.
func (s *Store) ask(ctx context.Context, f *fetch, p *plan, tag uint64, key string, units int64) (asked, int64, error) {
	take := func(ops []weir.Op) (int64, error) { return s.fetchCall(ctx, f, ops) }
	ops := []weir.Op{{Key: key, Limit: p.fetchBy(units), Cost: units}}
	sent, err := take(ops)
	if err == nil {
		s.heard(ops[0].Now, sent)
	}
	return asked{Op: ops[0], capped: isCapped(p, ops[0].Decision)}, sent, err
}

// fetchCall makes a call of a fetch, and returns the node's time at which it was sent.
func (s *Store) fetchCall(ctx context.Context, f *fetch, ops []weir.Op) (int64, error) {
	sent, err := s.link.Fetch(ctx, f.Flight, ops)
	return int64(sent), err
}

// returnsAtOnce is how many keys are given back in one call.
const returnsAtOnce = 16

// giveBackAll gives back what was fetched and not spent. What the shared store
// does not take stays spent: it is not offered twice, as it may have been taken. Only
// places are, which end once however often they are given back.
func (s *Store) giveBackAll() {
	r := &s.leases.returns
	for !s.link.IsOpen() {
		some := r.take(returnsAtOnce)
		if len(some) == 0 {
			return
		}
		ops := make([]weir.Op, 0, len(some))
		var units uint64
		wall := s.wall()
		for i := range some {
			b := &some[i]
			if b.bound && b.receipt <= wall {
				continue // its time is over
			}
			units += uint64(b.units)
			o := weir.Op{Key: b.key, Limit: b.limit, Cost: b.units, ID: b.receipt, ChargedAt: b.charged, Role: weir.Always, Verb: weir.Refund}
			if b.rest > 0 {
				o.Cost, o.Verb = b.rest, weir.Spend
			}
			ops = append(ops, o)
		}
		if len(ops) == 0 {
			continue
		}
		if _, err := s.link.takeLater(ops); err != nil {
			r.stranded.Add(units - r.putOff(some, s.link.now(), false))
			continue
		}
		r.given.Add(units - r.putOff(some, s.link.now(), true))
	}
}
