package tier

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// takeSlot decides an op of a concurrency limit by the places that the node holds.
// It reports whether the holder had its place before.
func (s *Store) takeSlot(ctx context.Context, o *weir.Op) (renewed bool, err error) {
	switch o.Verb {
	case weir.Refund:
		return false, s.releaseSlot(ctx, o)
	case weir.Peek:
		return false, s.peekSlot(ctx, o)
	}
	p, err := s.plans.of(o.Limit)
	if err != nil {
		return false, err
	}
	nodes := s.nodes.count()
	tag := s.tag(o.Key, o.Limit)
	if p.limit.Count/nodes < leastShare || o.Cost > max(p.limit.Count/(p.share4*nodes), 1) {
		return s.slotOfStore(ctx, p, tag, o)
	}
	return s.slotOfNode(ctx, p, tag, o)
}

// slotOfNode hands out a place that the node holds, and fetches more when it holds
// too little.
func (s *Store) slotOfNode(ctx context.Context, p *plan, tag uint64, o *weir.Op) (renewed bool, err error) {
	g := s.slots.shard(tag)
	ctx = s.link.Begin(ctx)
	for {
		g.mu.Lock()
		now := s.link.now()
		e := s.slots.add(g, tag, o.Key, p, now)
		if e == nil || !s.slots.room(holderBytes) {
			g.mu.Unlock()
			return s.slotOfStore(ctx, p, tag, o)
		}
		e.expire(g, now)
		ok, renewed, stale := e.spend(g, o.ID, o.Cost, now)
		if ok {
			s.spentHeld.Add(1)
			if e.low(now) || e.ageing(now) {
				s.startSlots(g, e, 0)
			}
			s.answerSlot(o, e.describe(now))
			g.mu.Unlock()
			return renewed, nil
		}
		has := e.holders[o.ID] != nil
		if now < e.ask && o.Cost >= e.refused && !stale && !has {
			s.refusals.Recalled.Add(1)
			s.answerSlot(o, e.refusal(now))
			g.mu.Unlock()
			return false, nil
		}
		if (has || len(e.lots) == maxLots) && !stale {
			if !has {
				// One asks for all who come until he is answered.
				e.refused, e.ask, e.retry = o.Cost, now+p.ttl/8, now+p.ttl/8
			}
			g.mu.Unlock()
			return s.slotOfStore(ctx, p, tag, o)
		}
		f := e.fetch
		if f == nil {
			need := o.Cost
			if stale {
				need = 0
			}
			if f, err = s.startSlots(g, e, need); err != nil {
				g.mu.Unlock()
				return false, s.oneAway(ctx, o, err)
			}
		}
		e.waiting += o.Cost
		g.mu.Unlock()
		err = s.link.Await(ctx, f.Flight)
		g.mu.Lock()
		e.waiting -= o.Cost
		g.mu.Unlock()
		if err != nil {
			return false, s.oneAway(ctx, o, err)
		}
	}
}

// answerSlot fills in the answer to o.
func (s *Store) answerSlot(o *weir.Op, d weir.Decision) {
	o.Decision, o.Now, o.Charged, o.Borrowed = d, s.wall(), d.Allowed(), false
}

// slotOfStore asks the shared store for a place of the holder's own, and notes that
// it has it there.
func (s *Store) slotOfStore(ctx context.Context, p *plan, tag uint64, o *weir.Op) (renewed bool, err error) {
	sent := s.link.now()
	if err := s.takeSharedOne(ctx, o); err != nil {
		return false, err
	}
	g := s.slots.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key)
	if d := o.Decision; e != nil && !d.Degraded() {
		e.remaining, e.asked = d.Remaining, sent
		o.Decision.Remaining += e.free()
	}
	if o.Decision.Degraded() {
		return false, nil
	}
	if !o.Decision.Allowed() {
		if e != nil {
			e.refusedBy(o.Decision, o.Cost, sent)
		}
		return false, nil
	}
	if e == nil {
		e = s.slots.add(g, tag, o.Key, p, sent)
	}
	if e == nil {
		return false, nil
	}
	e.refused, e.ask = 0, 0
	if old := e.holders[o.ID]; old != nil {
		renewed = true
		e.release(g, old)
	}
	if s.slots.room(holderBytes) {
		e.keep(g, o.ID, o.Cost, sent+p.period, nil)
	}
	return renewed, nil
}

// releaseSlot ends a holder's time. One that has no place of this node's is told to
// the shared store, which may have granted it one, even if the caller goes.
func (s *Store) releaseSlot(ctx context.Context, o *weir.Op) error {
	if s.releaseHeld(o) {
		return nil
	}
	return s.takeSharedOne(s.link.Detach(ctx), o)
}

// releaseHeld ends a holder's time, and reports whether its place was this node's.
func (s *Store) releaseHeld(o *weir.Op) bool {
	tag := s.tag(o.Key, o.Limit)
	g := s.slots.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key)
	if e == nil {
		return false
	}
	now := s.link.now()
	e.expire(g, now)
	h := e.holders[o.ID]
	if h == nil {
		return false
	}
	own := h.lot != nil && e.plan.limit == o.Limit
	e.release(g, h)
	if own {
		s.answerSlot(o, e.describe(now))
	}
	return own
}

// peekSlot looks at what the shared store has left and adds what the node holds.
func (s *Store) peekSlot(ctx context.Context, o *weir.Op) error {
	tag := s.tag(o.Key, o.Limit)
	g := s.slots.shard(tag)
	look := func(answer bool) (free int64, enough bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		e := g.get(tag, o.Key)
		if e == nil {
			return 0, false
		}
		now := s.link.now()
		e.expire(g, now)
		free = e.free()
		if h := e.holders[o.ID]; answer && (free >= o.Cost || h != nil && h.units >= o.Cost) {
			s.answerSlot(o, e.describe(now))
			o.Charged = false
			return free, true
		}
		return free, false
	}
	if _, enough := look(true); enough {
		return nil
	}
	if err := s.takeSharedOne(ctx, o); err != nil {
		return err
	}
	if !o.Decision.Degraded() {
		free, _ := look(false)
		o.Decision.Remaining += free
	}
	return nil
}

// holdsSlot reports whether a holder has a place that the node knows of.
func (s *Store) holdsSlot(o *weir.Op) bool {
	if s.slots.keys.Load() == 0 {
		return false
	}
	tag := s.tag(o.Key, o.Limit)
	g := s.slots.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.get(tag, o.Key)
	return e != nil && e.holders[o.ID] != nil
}

// startSlots begins a call that renews what the node holds of a key, and fetches
// need units more, or as many as are worth it if there are few. Requires: g.mu.
func (s *Store) startSlots(g *slotShard, e *places, need int64) (*fetch, error) {
	f, err := s.launch(func(f *fetch) { s.runSlots(g, e, f, need) })
	if err == nil {
		e.fetch = f
	}
	return f, err
}

// runSlots makes the calls. Each is of one op: a store takes what several ask of one
// key for a sum.
func (s *Store) runSlots(g *slotShard, e *places, f *fetch, need int64) {
	err := s.bringSlots(g, e, f, need)
	if err == nil {
		err = s.renewSlots(g, e, f)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e.fetch = nil
	f.Land(err)
}

// bringSlots fetches a lot of at least need units, or, if none are needed, one that
// is worth it if few are left. Where the shared store has fewer than were asked for
// it is asked once more.
func (s *Store) bringSlots(g *slotShard, e *places, f *fetch, need int64) error {
	g.mu.Lock()
	p, nodes, want := e.plan, s.nodes.count(), int64(0)
	if need > 0 || e.short(s.link.now()) {
		need = max(need, 1)
		want = e.want(nodes, need, s.link.now())
	}
	g.mu.Unlock()
	if want == 0 {
		return nil
	}
	o := weir.Op{Key: e.key, Limit: p.slots, Cost: want, ID: newLot()}
	sent, err := s.callSlot(f, &o)
	if left := o.Decision.Remaining; err == nil && !o.Decision.Allowed() && want > need && left >= need {
		// What is there is divided as well.
		o.Cost = max(min(left/(p.share4*nodes), want-1), need)
		sent, err = s.callSlot(f, &o)
	}
	if err != nil {
		// It may have been granted all the same.
		s.leases.returns.add([]giveBack{{key: e.key, limit: p.slots, units: o.Cost, receipt: o.ID, ends: later(s.link.now(), p.period+p.spare), twice: true}})
		return err
	}
	s.fetched.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	e.brought(g, &o, sent, need)
	return nil
}

// renewSlots renews the lots that will soon be too old to be handed out.
func (s *Store) renewSlots(g *slotShard, e *places, f *fetch) error {
	g.mu.Lock()
	p := e.plan
	lots := append([]*slotLot(nil), e.lots...)
	ops := make([]weir.Op, len(lots))
	for i, t := range lots {
		if !t.lost && e.old(t, s.link.now()) {
			ops[i] = weir.Op{Key: e.key, Limit: p.slots, Cost: t.units, ID: t.id}
		}
	}
	g.mu.Unlock()
	for i, t := range lots {
		if ops[i].ID == 0 {
			continue
		}
		sent, err := s.callSlot(f, &ops[i])
		if err != nil {
			return err
		}
		s.fetched.Add(1)
		g.mu.Lock()
		if ops[i].Decision.Allowed() {
			t.expiry = max(t.expiry, sent+p.period+p.spare)
		} else {
			t.lost = true // it has given the units to others
		}
		g.mu.Unlock()
	}
	return nil
}

// callSlot makes a call on the goroutine that it has been given. It returns the
// node's time at which it was made.
func (s *Store) callSlot(f *fetch, o *weir.Op) (int64, error) {
	ops := []weir.Op{*o}
	sent, err := s.fetchCall(context.Background(), f, ops)
	if err == nil {
		s.heard(ops[0].Now, sent)
	}
	*o = ops[0]
	return sent, err
}

// short is low of a key whose fetch is under way.
func (e *places) short(now int64) bool {
	return now >= e.ask && len(e.lots) < maxLots && e.free()*8 < max(e.held(), 1)
}

// want is how many units to fetch: within the node's share of what remains, as
// many as it uses, or as are waited for.
func (e *places) want(nodes, need, now int64) int64 {
	p := e.plan
	left := p.limit.Count
	if e.asked > 0 && now-e.asked < p.ttl {
		left = e.remaining
	}
	return max(min(left/(p.share4*nodes), max(e.pace, e.waiting)), need)
}

// brought takes over a new lot, or the refusal of need units. Requires: g.mu.
func (e *places) brought(g *slotShard, o *weir.Op, sent, need int64) {
	p := e.plan
	e.remaining, e.asked = o.Decision.Remaining, sent
	if o.Decision.Allowed() {
		// The count may have been lowered meanwhile.
		e.lots = append(e.lots, &slotLot{id: o.ID, units: o.Cost, expiry: sent + p.period + p.spare, over: p.limit.Count < o.Limit.Count})
		g.bytes.Add(slotBytes)
		e.pace = min(4*max(o.Cost, e.pace), p.limit.Count)
		e.refused, e.ask = 0, 0
		e.least = min(e.least, e.free())
		return
	}
	e.refusedBy(o.Decision, need, sent)
}

// refusedBy notes that the shared store has refused cost units. A place can become
// free at any time: it is asked again soon.
func (e *places) refusedBy(d weir.Decision, cost, sent int64) {
	e.refused, e.ask = cost, sent+e.plan.ttl/8
	if e.retry = e.ask; d.RetryAfter != weir.Never {
		e.retry = later(sent, micros.Of(d.RetryAfter))
	}
}

// sweepSlots gives back what lay idle for the time of a lease, in a part of the
// table.
func (s *Store) sweepSlots() {
	t := s.slots
	if t.keys.Load() == 0 {
		return
	}
	now := s.link.now()
	for range leaseShards / 4 {
		g := &t.shards[t.next]
		t.next = (t.next + 1) % leaseShards
		g.mu.Lock()
		for _, e := range g.all {
			if e.fetch != nil {
				continue
			}
			e.expire(g, now)
			if s.leases.returns.room(maxLots, e.key) {
				s.leases.returns.add(e.excess(g))
			}
			free := e.free()
			if e.least = min(e.least, free); now-e.since < e.plan.ttl {
				continue
			}
			if e.least > 0 && s.leases.returns.room(maxLots, e.key) {
				s.leases.returns.add(e.idle(g, e.least))
				e.pace = max(e.held()/4, 1)
			}
			e.least, e.since = e.free(), now
			if len(e.lots) == 0 && len(e.holders) == 0 {
				t.forget(g, e)
			}
		}
		g.mu.Unlock()
	}
}

// clear gives back all units that nobody has. Those that somebody has stay with him
// until his time ends.
func (t *slots) clear(returns *returns) {
	for i := range t.shards {
		g := &t.shards[i]
		g.mu.Lock()
		for _, e := range g.all {
			returns.add(e.idle(g, e.free()))
			returns.add(e.excess(g))
			t.forget(g, e)
		}
		g.mu.Unlock()
	}
}

// count returns how many keys the node holds units of, and the units that nobody
// has.
func (t *slots) count() (keys int, units int64) {
	for i := range t.shards {
		g := &t.shards[i]
		g.mu.Lock()
		keys += len(g.all)
		for _, e := range g.all {
			units += e.free()
		}
		g.mu.Unlock()
	}
	return keys, units
}
