package tier

import (
	"context"

	"github.com/weirlimit/weir"
)

// spendStrict decides a spend of cost units of key on the shared store.
func (s *Store) spendStrict(ctx context.Context, p *plan, tag uint64, key string, cost int64) (weir.Decision, int64, error) {
	l := p.limit
	if p.recall {
		if d, ok := s.answers.refusal(tag, l, cost, s.link.now()); ok {
			return d, s.wall(), nil
		}
	}
	d, now, sent, err := s.combiner.take(ctx, tag, key, l, cost)
	if err != nil {
		return weir.Decision{}, 0, err
	}
	s.heard(now, sent)
	s.answers.heard(tag, l, cost, sent, d, p.recall)
	return d, now, nil
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
	sent, err := s.link.take(ctx, ops)
	if err != nil {
		return s.decideAway(ctx, ops, err)
	}
	s.heard(ops[0].Now, sent)
	for i := range ops {
		s.learn(&ops[i], sent)
	}
	return nil
}

// takeSharedOne decides an op that stands alone.
func (s *Store) takeSharedOne(ctx context.Context, o *weir.Op) error {
	p, err := s.plans.of(o.Limit)
	if err != nil {
		return err
	}
	one := []weir.Op{*o}
	if plain(o) && o.Limit.Traits()&weir.Leases == 0 && o.Cost > 0 {
		d, now, err := s.spendStrict(ctx, p, s.tag(o.Key, o.Limit), o.Key, o.Cost)
		if err == nil {
			o.Decision, o.Now, o.Charged, o.Borrowed = d, now, d.Allowed(), false
			return nil
		}
		err = s.decideAway(ctx, one, err)
		*o = one[0]
		return err
	}
	sent, err := s.link.take(ctx, one)
	if err != nil {
		err = s.decideAway(ctx, one, err)
		*o = one[0]
		return err
	}
	*o = one[0]
	s.heard(o.Now, sent)
	s.learn(o, sent)
	return nil
}

// plain reports whether the op is a spend that must allow, and no more.
func plain(o *weir.Op) bool {
	return o.Role == weir.Enforce && o.Verb == weir.Spend && o.Reserve == 0 && !o.Penalize
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
		if d, ok := s.answers.refusal(s.tag(o.Key, o.Limit), o.Limit, o.Cost, now); ok {
			o.Decision, found = d, true
		}
	}
	return found
}

// learn remembers what the shared store said of an op.
func (s *Store) learn(o *weir.Op, sent int64) {
	if o.Decision.Limit == nil || o.Role == weir.Deny {
		return
	}
	p, err := s.plans.of(o.Limit)
	if err != nil {
		return
	}
	tag := s.tag(o.Key, o.Limit)
	if o.Verb == weir.Refund {
		s.answers.forget(tag, s.link.now())
		return
	}
	s.answers.heard(tag, o.Limit, o.Cost, sent, o.Decision, p.recall && plain(o))
}
