package tier

import (
	"context"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// An asked is what the region's store said.
type asked struct {
	weir.Op       // of the limit
	sent    int64 // the node's time at which it was asked
	c       *epochCounters
	// capped: it was refused, as the others need to be told first.
	capped bool
	// found is what an earlier fetch had brought whose answer was lost.
	found lot
}

// askRegion spends units of key on the region's store by take, if its counter allows
// it without a word to the others.
func (s *Store) askRegion(p *plan, tag uint64, key string, units int64, take func([]weir.Op) (int64, error)) (asked, error) {
	r := p.regional
	for range 4 {
		c, err := r.epoch(s.wall())
		if err != nil {
			return asked{}, err
		}
		_, told := s.regions.known(c, tag)
		ops := r.spend(c, p.fetchBy(units), key, units, told)
		sent, err := take(ops)
		if err != nil {
			return asked{}, err
		}
		o := ops[0]
		s.heard(o.Now, sent)
		own, now := regionCount-ops[1].Decision.Remaining, regionCount-ops[2].Decision.Remaining
		s.regions.heard(p, c, tag, key, own, now, s.link.now())
		switch {
		case o.Charged && c.window && o.Receipt() != c.end:
			// The window has turned meanwhile: it was counted in the wrong one.
			s.leases.returns.add([]giveBack{{key: key, limit: p.by(units), units: units, receipt: o.Receipt(), bound: true, own: c.own}})
			continue
		case o.Charged || !o.Decision.Allowed():
			if units > r.cap {
				o.Decision.RetryAfter = weir.Never
			}
			return asked{Op: o, sent: sent, c: c}, nil
		case now > told:
			continue // more is known to the others than was thought
		}
		s.regions.capped.Add(1)
		o.Decision = weir.Decision{
			Limit: o.Decision.Limit, Remaining: max(min(o.Decision.Remaining, r.cap-(own-now)), 0),
			RetryAfter: r.retry(units), ResetAfter: o.Decision.ResetAfter,
		}
		return asked{Op: o, sent: sent, c: c, capped: true}, nil
	}
	return asked{}, transport.ErrLate
}

// spendRegion is spendStrict for a limit that regions count together.
func (s *Store) spendRegion(ctx context.Context, p *plan, tag uint64, key string, cost int64) (weir.Decision, int64, error) {
	a, err := s.askRegion(p, tag, key, cost, func(ops []weir.Op) (int64, error) { return s.link.take(ctx, ops) })
	if err != nil {
		return weir.Decision{}, 0, err
	}
	d := a.Decision
	d.Limit = p.limit.From(weir.FromCounts)
	s.remember(tag, p.limit, cost, a.sent, a.Decision, p.recall && !a.capped)
	return d, a.Now, nil
}

// companions returns the ops that count ops for other regions.
//
// What is given back of a limit without windows of its own may be of an epoch that
// is over: the region's counter keeps it.
func (s *Store) companions(ops []weir.Op) (out []weir.Op, err error) {
	if s.regions == nil {
		return nil, nil
	}
	for i := range ops {
		o := &ops[i]
		r := s.regionalOf(o)
		if r == nil {
			continue
		}
		c, err := r.epoch(s.wall())
		if err == nil && o.Verb == weir.Refund && o.ID != 0 && o.ID != c.end {
			c, err = r.ending(o.ID, s.wall())
		}
		if err != nil {
			return nil, err
		}
		own := weir.Op{Key: o.Key, Limit: c.own, Cost: o.Cost, Role: o.Role, Verb: o.Verb}
		if o.Verb == weir.Spend {
			_, told := s.regions.known(c, s.tag(o.Key, o.Limit))
			own.Headroom = max(regionCount-told-r.cap, 0)
		}
		out = append(out, own)
	}
	return out, nil
}

// ownOf returns the region's counter that the units of a refund were counted in, or
// nil.
func (s *Store) ownOf(o *weir.Op) *weir.Limit {
	r := s.regionalOf(o)
	if r == nil || o.ID == 0 {
		return nil
	}
	c, err := r.ending(o.ID, s.wall())
	if err != nil {
		return nil
	}
	return c.own
}

// regionalOf returns how the limit of an op that has a companion is counted, or nil.
func (s *Store) regionalOf(o *weir.Op) *regional {
	if o.Role == weir.Deny || o.Verb == weir.Peek || o.Cost == 0 {
		return nil
	}
	p, err := s.plans.of(o.Limit)
	if err != nil || p.regional == nil || o.Verb == weir.Refund && p.regional.length > 0 {
		return nil
	}
	return p.regional
}

// accompanied takes over what companions said: units that the region may not admit
// without a word to the others are refused, and what was counted is told. What was
// charged in another window than its companion is counted there too.
func (s *Store) accompanied(ops, companions []weir.Op) {
	if len(companions) == 0 {
		return
	}
	for i := range ops {
		o := &ops[i]
		r := s.regionalOf(o)
		if r == nil {
			continue
		}
		own := &companions[0]
		companions = companions[1:]
		if o.Decision.Allowed() && !own.Decision.Allowed() {
			s.regions.capped.Add(1)
			o.Decision.RetryAfter = r.retry(o.Cost)
		}
		p, err := s.plans.of(o.Limit)
		if err != nil {
			continue
		}
		if r.length == 0 && o.Charged && o.Verb != weir.Refund {
			if c, err := r.ending(o.Receipt(), o.Now); err == nil && c.own != own.Limit {
				s.countTurned(p, c, o)
				continue
			}
		}
		if c := r.now.Load(); c != nil && c.own == own.Limit {
			s.regions.heard(p, c, s.tag(o.Key, o.Limit), o.Key, regionCount-own.Decision.Remaining, 0, s.link.now())
		}
	}
}

// countTurned counts an op whose window turned while its call was under way in the
// window that charged it. The counter of the window that is over stays too high,
// which costs nothing there.
func (s *Store) countTurned(p *plan, c *epochCounters, o *weir.Op) {
	ops := []weir.Op{{Key: o.Key, Limit: c.own, Cost: o.Cost, Role: weir.Always, Verb: weir.Force}}
	if _, err := s.link.takeLater(ops); err != nil {
		s.log.Warn("units charged at the end of a window not sent to other regions: the store is unavailable",
			"limit", p.limit.Name, "units", o.Cost, "error", err)
		return
	}
	s.regions.heard(p, c, s.tag(o.Key, o.Limit), o.Key, regionCount-ops[0].Decision.Remaining, 0, s.link.now())
}

// publish tells other regions what is due.
func (s *Store) publish(all bool) {
	if s.regions == nil {
		return
	}
	for _, b := range s.regions.take(s.link.now(), all) {
		select {
		case s.regions.pushes <- struct{}{}:
		default:
			s.regions.done(b.outbound, false, s.link.now())
			continue
		}
		if !s.link.Go(func() {
			s.regions.done(b.outbound, s.push(b), s.link.now())
			<-s.regions.pushes
		}) {
			<-s.regions.pushes
			s.regions.done(b.outbound, false, s.link.now())
		}
	}
}

// push tells every other region how far the region's own counter of a key has come,
// if it is this node's turn. It reports whether all have heard, or need not by it.
func (s *Store) push(b push) bool {
	rs := s.regions
	rs.mu.Lock()
	r, c, key := b.plan.regional, b.c, b.key
	rs.mu.Unlock()
	ops := []weir.Op{
		{Key: key, Limit: c.own, Cost: 1, Role: weir.Always, Verb: weir.Peek},
		{Key: key, Limit: c.told, Cost: 1, Role: weir.Always, Verb: weir.Peek},
		{Key: key, Limit: c.sent, Cost: 1, Role: weir.Always, Verb: weir.Peek},
	}
	if r.most != nil {
		ops = append(ops, weir.Op{Key: key, Limit: r.most, Cost: 1, Role: weir.Always, Verb: weir.Peek})
	}
	switch {
	case b.last:
	case b.urgent:
		ops = append(ops, weir.Op{Key: key, Limit: r.soon, Cost: 1})
	default:
		ops = append(ops, weir.Op{Key: key, Limit: r.turn, Cost: 1})
	}
	if _, err := s.link.takeLater(ops); err != nil {
		return false
	}
	at := func(i int) int64 { return regionCount - ops[i].Decision.Remaining }
	own, told, was := at(0), at(1), at(2)
	if r.most != nil {
		s.sawOvershot(r.limit.Overshoot() - ops[3].Decision.Remaining)
	}
	mine := b.last || ops[len(ops)-1].Decision.Allowed()
	if !b.urgent || was < told {
		// Whatever was on its way before has had its time.
		was = told
	}
	rs.mu.Lock()
	b.own, b.told, b.sent = own, max(b.told, told), max(b.sent, at(2))
	if mine {
		b.sent = max(b.sent, own)
	}
	rs.mu.Unlock()
	if !mine || own <= was {
		return true
	}
	s.raise(key, c.sent, own, at(2))
	if !s.tellPeers(key, c, r.limit, own, was) {
		return false
	}
	s.raise(key, c.told, own, told)
	rs.mu.Lock()
	b.told = max(b.told, own)
	rs.mu.Unlock()
	return true
}

// raise raises a counter of the region to n, if it is no further than was. If it
// cannot be, others tell once more what was told.
func (s *Store) raise(key string, l *weir.Limit, n, was int64) {
	if n > was {
		_, _ = s.link.takeLater([]weir.Op{{Key: key, Limit: l, Cost: n - was, Headroom: regionCount - n}})
	}
}

// sawOvershot notes by how much a limit was seen to be overshot.
func (s *Store) sawOvershot(over int64) {
	for {
		old := s.overshot.Load()
		if over <= old || s.overshot.CompareAndSwap(old, over) {
			return
		}
	}
}

// tellPeers tells all other regions at once, and reports whether all have heard.
func (s *Store) tellPeers(key string, c *epochCounters, l *weir.Limit, own, told int64) bool {
	heard := make([]bool, len(s.regions.peers))
	var wg sync.WaitGroup
	for i, p := range s.regions.peers {
		if p.link.IsOpen() {
			continue
		}
		wg.Go(func() { heard[i] = s.tellPeer(p, key, c, l, own, told) })
	}
	wg.Wait()
	for _, ok := range heard {
		if !ok {
			return false
		}
	}
	return true
}

// tellPeer raises a peer's copy of the counter to own, and charges what it did not
// know of. Told twice, late or out of order it charges nothing twice: a raise passes
// only from where it was thought to be, or below.
func (s *Store) tellPeer(p *peer, key string, c *epochCounters, l *weir.Limit, own, was int64) bool {
	for range 5 {
		if c.window && p.known.Load() {
			now := s.link.now() + p.clock.Load()
			switch {
			case now >= c.end:
				return true // it does not count there any more
			case now < c.since.Load():
				return false // it does not count there yet
			}
		}
		ops := []weir.Op{
			{Key: key, Limit: c.copy, Cost: own - was, Headroom: regionCount - own},
			{Key: key, Limit: l, Cost: own - was, Role: weir.Always, Verb: weir.Force},
		}
		if c.window && !p.known.Load() {
			// Its clock is not known yet.
			ops = ops[:1]
			ops[0].Verb = weir.Peek
		}
		_, err := p.link.takeLater(ops)
		if err != nil {
			p.unanswered.Add(1)
			return false
		}
		got := s.link.now()
		p.clock.Store(ops[0].Now - got)
		p.known.Store(true)
		p.heard.Store(got)
		has := regionCount - ops[0].Decision.Remaining
		switch {
		case ops[0].Charged:
			p.units.Add(uint64(own - was))
		}
		if has >= own {
			return true
		}
		was = has
	}
	return false
}

// closePeers waits for the calls of other regions.
func (s *Store) closePeers() {
	if s.regions == nil {
		return
	}
	for _, p := range s.regions.peers {
		p.link.Close()
	}
}
