package shared

import (
	"context"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// isOwed reports whether none of ops must allow: units that are given back, and costs that
// were incurred. What a call without an answer has charged of them is not known to whoever
// asks, and cannot be undone: so each part of them is carried out once, and again in the
// background where it has no answer.
func isOwed(ops []weir.Op) bool {
	for i := range ops {
		if o := &ops[i]; o.Verb != weir.Refund && o.Verb != weir.Force || o.Role > weir.Always || o.Role == weir.Own || o.Role == weir.Pool ||
			o.Penalize || o.Limit.Traits()&weir.Leases != 0 {
			return false
		}
	}
	return true
}

// settleOwed has the store carry out ops that are owed: those of each part in one call, all at
// the same time.
func (d *decision) settleOwed(ops []weir.Op) error {
	first, isOne := d.queue.Repeater.PartOfKey(ops[0].Key), true
	for i := range ops[1:] {
		isOne = isOne && d.queue.Repeater.PartOfKey(ops[i+1].Key) == first
	}
	if isOne {
		return d.settlePart(d.ctx, ops)
	}
	at := map[int][]int{}
	var parts []int
	for i := range ops {
		part := d.queue.Repeater.PartOfKey(ops[i].Key)
		if at[part] == nil {
			parts = append(parts, part)
		}
		at[part] = append(at[part], i)
	}
	calls, errs := transport.NewGroup(d.env), make([]error, len(parts))
	for n, part := range parts {
		calls.Go(func() {
			some := make([]weir.Op, 0, len(at[part]))
			for _, i := range at[part] {
				some = append(some, ops[i])
			}
			errs[n] = d.settlePart(d.ctx, some)
			for j, i := range at[part] {
				ops[i].Answer = some[j].Answer
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

// settlePart has the store carry out ops of one part that are owed. Those of a call that is
// made again are charged, for all that its caller will hear: what they leave is not known.
func (d *decision) settlePart(ctx context.Context, ops []weir.Op) error {
	s := d.Store
	sent, again, err := s.queue.Repeater.CallOnce(ctx, transport.Foreground, ops, false, func(ops []weir.Op, sent clock.Node, err error) {
		s.settled(ops, sent, err)
		s.unheard.Add(-int64(len(ops)))
	})
	switch {
	case err == nil:
		d.settled(ops, sent, nil)
		return nil
	case !again:
		return d.outage.DecideOps(ctx, ops, err)
	}
	d.unheard.Add(int64(len(ops)))
	looks := slices.Clone(ops)
	for i := range looks {
		looks[i].Role, looks[i].Verb = weir.Always, weir.Peek
	}
	err = d.outage.DecideOps(ctx, looks, err)
	for i := range ops {
		a := looks[i].Decision
		a.RetryAfter = 0
		looks[i].Answer = looks[i].WithDecision(a)
		ops[i].Answer.Set(looks[i].Decision, looks[i].Now, 0, true, false)
	}
	return err
}

// settled takes over what the store has answered to ops that were owed, or counts the units
// as lost of which it is not known whether it has them.
func (s *Store) settled(ops []weir.Op, sent clock.Node, err error) {
	_ = s.observe(ops, sent, err)
	for i := range ops {
		o := &ops[i]
		switch {
		case err == nil:
			if p, err := s.policies.forLimit(o.Limit); err == nil && o.Decision.Limit != nil {
				s.learnAnswer(o, p, sent)
			}
		case o.Verb == weir.Force:
			s.outage.Lost.Add(uint64(o.Cost))
		default:
			s.returns.Stranded.Add(uint64(o.Cost))
		}
	}
}

// learnAnswer has the decider, or at least the refusals, take over what the store answered.
func (s *Store) learnAnswer(o *weir.Op, p *policy, sent clock.Node) {
	tag := s.table.TagForKey(o.Key, o.Limit)
	if p.canLearn(o) {
		p.decider.Learn(o, sent)
	} else if o.Verb != weir.Refund {
		s.refusals.LearnAnswer(tag, o.Limit, o.Cost, sent, o.Decision, 0)
	}
	if o.Verb == weir.Refund {
		s.refusals.ForgetRefunded(tag, o.Limit, s.clock.Now(), o.Decision)
	}
}
