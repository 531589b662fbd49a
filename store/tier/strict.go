package tier

import (
	"context"
	"math"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
)

// spendStrict decides a spend of cost units of key on the shared store, by the
// plan's limit or what it is asked by.
func (s *Store) spendStrict(ctx context.Context, p *plan, by *weir.Limit, tag uint64, key string, cost int64) (weir.Decision, int64, error) {
	l := p.limit
	if p.recall {
		// Read once: the clock is half of what a remembered refusal costs.
		now := s.link.now()
		if d, ok := s.refusals.Recall(tag, l, cost, false, clock.Node(now)); ok {
			return d, now + s.clock.Load(), nil
		}
	}
	d, now, sent, err := s.link.spend(ctx, key, by, cost)
	if err != nil {
		return weir.Decision{}, 0, err
	}
	capped := isCapped(p, d)
	if p.regions > 0 {
		d.Limit = p.limit.From(weir.FromCounts)
	}
	switch {
	case p.central == nil || p.regions > 0:
	case by == p.central:
		d = p.told(d)
	case cost > p.central.Burst:
		d = p.whole(d)
	}
	s.heard(now, sent)
	s.remember(tag, l, cost, sent, d, p.recall && !capped)
	return d, now, nil
}

// isCapped reports whether a decision refuses what other regions must know of first.
func isCapped(p *plan, d weir.Decision) bool {
	return p.regions > 0 && !d.Allowed() && d.Guarantee().Source == weir.FromCounts
}

// takeShared decides ops on the shared store, and on the node if that does not
// answer.
func (s *Store) takeShared(ctx context.Context, ops []weir.Op) error {
	if len(ops) == 1 {
		return s.takeSharedOne(ctx, &ops[0])
	}
	if s.recallAll(ops) {
		return nil
	}
	return s.call(ctx, ops)
}

// call makes one call of ops.
func (s *Store) call(ctx context.Context, ops []weir.Op) error {
	lent := false
	for i := range ops {
		if o := &ops[i]; o.Role != weir.Deny {
			p, err := s.plans.of(o.Limit)
			if err != nil {
				return err
			}
			lent = lent || p.central != nil || p.regions > 0
		}
	}
	if lent {
		return s.callLent(ctx, ops)
	}
	sent, err := s.link.take(ctx, ops)
	if err != nil {
		return s.decideLeft(ctx, ops, err)
	}
	s.learn(ops, sent)
	return nil
}

// callLent is call for ops of which some are of leased buckets: the shared store
// is asked by the burst that it has to lend; or of limits that regions count
// together: they are counted for the others too.
func (s *Store) callLent(ctx context.Context, ops []weir.Op) error {
	asked := slices.Clone(ops)
	plans := make([]*plan, len(ops))
	for i := range asked {
		if o := &asked[i]; o.Role != weir.Deny {
			p, err := s.plans.of(o.Limit)
			if err != nil {
				return err
			}
			plans[i] = p
			if o.Verb != weir.Force && o.Verb != weir.Refund {
				o.Limit = p.by(o.Cost + o.Headroom)
			}
		}
	}
	sent, err := s.link.take(ctx, asked)
	if err != nil {
		return s.decideLeft(ctx, ops, err)
	}
	for i := range ops {
		o, a := &ops[i], &asked[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
		if plans[i] != nil && a.Limit == plans[i].central {
			o.Decision = plans[i].told(a.Decision)
		}
		if plans[i] != nil && plans[i].regions > 0 && o.Decision.Limit != nil {
			o.Decision.Limit = plans[i].limit.From(weir.FromCounts)
		}
	}
	s.learn(ops, sent)
	return nil
}

// takeSharedOne decides an op that stands alone.
func (s *Store) takeSharedOne(ctx context.Context, o *weir.Op) error {
	p, err := s.plans.of(o.Limit)
	if err != nil {
		return err
	}
	if plain(o) && o.Limit.Traits()&weir.Leases == 0 && o.Cost > 0 {
		d, now, err := s.spendStrict(ctx, p, p.by(o.Cost), s.tag(o.Key, o.Limit), o.Key, o.Cost)
		if err == nil {
			o.Decision, o.Now, o.Charged, o.Borrowed = d, now, d.Allowed(), false
			return nil
		}
		return s.oneAway(ctx, o, err)
	}
	one, before := []weir.Op{*o}, s.link.now()
	err = s.call(ctx, one)
	*o = one[0]
	if err == nil && (p.mode == params.ConsistencyLeased || p.mode == params.ConsistencyEventual) && !o.Decision.Degraded() {
		s.told(o, before)
	}
	return err
}

// oneAway is decideAway for one op. The copy keeps ops of others off the heap.
func (s *Store) oneAway(ctx context.Context, o *weir.Op, err error) error {
	one := []weir.Op{*o}
	err = s.decideAway(ctx, one, err)
	*o = one[0]
	return err
}

// plain reports whether the op is a spend that must allow, and no more.
func plain(o *weir.Op) bool {
	return o.Role == weir.Enforce && o.Verb == weir.Spend && o.Headroom == 0 && !o.Penalize
}

// recallAll answers ops from remembered refusals, if one of them is refused and
// nothing is to be charged for that. Ops of which nothing is remembered are left
// without an answer.
func (s *Store) recallAll(ops []weir.Op) bool {
	for i := range ops {
		if !plain(&ops[i]) {
			return false
		}
	}
	now, found := s.link.now(), false
	for i := range ops {
		o := &ops[i]
		p, err := s.plans.of(o.Limit)
		if err != nil || !p.recall {
			return false
		}
		o.Decision, o.Now, o.Charged, o.Borrowed = weir.Decision{}, s.wall(), false, false
		if d, ok := s.refusals.Recall(s.tag(o.Key, o.Limit), o.Limit, o.Cost, false, clock.Node(now)); ok {
			o.Decision, found = d, true
		}
	}
	return found
}

// remember takes over what the shared store said of a cost that was sent at sent: what
// remains, and if keep a refusal.
func (s *Store) remember(tag uint64, l *weir.Limit, cost, sent int64, d weir.Decision, keep bool) {
	life := int64(0)
	if keep {
		life = math.MaxInt64
	}
	s.refusals.Learn(tag, l, cost, clock.Node(sent), d, life)
}

// learn remembers what the shared store said of ops.
func (s *Store) learn(ops []weir.Op, sent int64) {
	s.heard(ops[0].Now, sent)
	for i := range ops {
		o := &ops[i]
		if o.Decision.Limit == nil || o.Role == weir.Deny {
			continue
		}
		p, err := s.plans.of(o.Limit)
		if err != nil {
			continue
		}
		tag := s.tag(o.Key, o.Limit)
		if o.Verb == weir.Refund {
			s.refusals.Refund(tag, o.Limit, clock.Node(s.link.now()), o.Decision)
			continue
		}
		s.remember(tag, o.Limit, o.Cost, sent, o.Decision, p.recall && plain(o))
	}
}
