package tier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// awayRetry is the RetryAfter of what is refused because the shared store is
// away. It is a guess: within it, a store that is back has been found.
const awayRetry = time.Second

// decideAway answers ops on the node, as each limit's policy says: err is why the
// shared store did not. It returns err if no decision can be made.
func (s *Store) decideAway(ctx context.Context, ops []weir.Op, err error) error {
	if wrong(err) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	a := s.aways.Get().(*away)
	defer s.aways.Put(a)
	a.ops, a.of, a.debts, a.backs = a.ops[:0], a.of[:0], a.debts[:0], a.backs[:0]
	defer func() {
		for _, tag := range a.debts {
			s.debts.release(tag)
		}
	}()
	policy, sent := params.OnErrorLocal, transport.MayRun(err)
	for i := range ops {
		o := &ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = clearAnswer(o), s.wall(), false, false
		if o.Role == weir.Deny {
			a.add(*o, i)
			continue
		}
		// A pool goes with the limit that borrows from it.
		if o.Role != weir.Pool || i == 0 {
			p, err := s.plans.of(o.Limit)
			if err != nil {
				return err
			}
			policy = p.policy
		}
		if err := s.decideOneAway(a, o, i, policy, sent); err != nil {
			return err
		}
	}
	if len(a.ops) > 0 {
		if err := s.local.Take(ctx, a.ops); err != nil {
			return err
		}
	}
	s.degraded.Add(1)
	for j := range a.ops {
		s.answerAway(&a.ops[j], &ops[a.of[j]])
	}
	if len(a.backs) > 0 && weir.Fold(ops).Allowed() {
		for _, b := range a.backs {
			s.refundAway(&ops[b.of], b.units, sent)
		}
	}
	return nil
}

// decideLeft is decideAway for ops of a call that the shared store may carry out later,
// or not at all. Places that it grants to holders who are not admitted are given back
// when the call has ended, and so are those that the ops give back.
func (s *Store) decideLeft(ctx context.Context, ops []weir.Op, err error) error {
	failed := s.decideAway(ctx, ops, err)
	var r *transport.Result
	left := errors.As(err, &r) && r.IsLeft()
	admitted := failed == nil && weir.Fold(ops).Allowed() || !left && (failed != nil || !transport.MayRun(err))
	var back []giveBack
	for i := range ops {
		if o := &ops[i]; takesPlace(o) && !admitted || endsPlace(o) {
			back = append(back, giveBack{key: strings.Clone(o.Key), limit: o.Limit, units: o.Cost, receipt: o.ID,
				ends: later(s.link.now(), micros.Of(o.Limit.Period)), twice: !left && takesPlace(o)})
		}
	}
	switch {
	case len(back) == 0:
	case !left:
		s.leases.returns.add(back)
	default:
		r.Then(func(ops []weir.Op, err error) {
			if err != nil || slices.ContainsFunc(ops, func(o weir.Op) bool { return takesPlace(&o) && o.Charged }) {
				s.leases.returns.add(back)
			}
		})
	}
	return failed
}

// takesPlace reports whether an op takes a place under a name that nobody else knows.
func takesPlace(o *weir.Op) bool {
	return o.NewLease && o.Cost > 0 && (o.Verb == weir.Spend || o.Verb == weir.Force) && o.Role != weir.Ban && o.Role != weir.Deny
}

// endsPlace reports whether an op gives such a place back.
func endsPlace(o *weir.Op) bool { return o.NewLease && o.Verb == weir.Refund }

// refundAway sees to it that the shared store gets so many units of a refund back when
// it answers again. If the call may have been sent it may have got them already: then
// nobody spends them.
func (s *Store) refundAway(o *weir.Op, units int64, sent bool) {
	if sent {
		s.leases.returns.stranded.Add(uint64(units))
		return
	}
	back := *o
	back.Cost = units
	s.returnLater(&back)
	o.Charged = true
}

// clearAnswer returns the decision with which an op goes to a store: none but
// that of one that is denied already.
func clearAnswer(o *weir.Op) weir.Decision {
	if o.Role == weir.Deny {
		return o.Decision
	}
	return weir.Decision{}
}

// away is room for the ops that are decided on the node.
type away struct {
	ops []weir.Op
	of  []int // which op of the request each stands for
	// debts are the debts that are kept until the request is decided.
	debts []uint64
	// backs are the refunds that are not, or not all, of what the node has admitted
	// alone, if the request passes.
	backs []awayBack
}

// An awayBack is so many units that an op of the request gives back to the shared
// store.
type awayBack struct {
	of    int
	units int64
}

func (a *away) add(o weir.Op, i int) {
	a.ops = append(a.ops, o)
	a.of = append(a.of, i)
}

// decideOneAway decides the i-th op by its policy, or adds what the node's store
// is asked instead. sent: the shared store may have carried it out.
func (s *Store) decideOneAway(a *away, o *weir.Op, i int, policy params.StoreErrorPolicy, sent bool) error {
	l := o.Limit
	// Of permits the node's share keeps a count of its own.
	refund := o.Verb == weir.Refund && l.Traits()&weir.Leases == 0
	if refund && (policy == params.OnErrorAllow || policy == params.OnErrorDeny) {
		a.backs = append(a.backs, awayBack{i, o.Cost})
	}
	switch policy {
	case params.OnErrorAllow:
		o.Decision = weir.Decision{Limit: l.From(weir.FailedOpen), Remaining: l.Burst}
		if o.Role == weir.Ban {
			// Nothing is known of its refusals, and nothing is added to them.
			o.Decision.Remaining = l.Count
		}
		return nil
	case params.OnErrorDeny:
		o.Decision = weir.Decision{Limit: l.From(weir.FailedClosed), RetryAfter: awayRetry}
		switch o.Role {
		case weir.Soft, weir.Shadow, weir.Always, weir.Pool, weir.Ban:
			// They refuse nothing by themselves.
			o.Decision.RetryAfter = 0
			return nil
		}
		if o.Verb == weir.Force || o.Verb == weir.Refund {
			o.Decision.RetryAfter = 0
			return nil
		}
		denied := *o
		denied.Role = weir.Deny
		a.add(denied, i)
		return nil
	}
	p, err := s.plans.of(l)
	if err != nil {
		return err
	}
	nodes := s.nodes.count()
	if policy == params.OnErrorLastKnown {
		nodes = 1
	} else if p.regions > 0 {
		nodes *= p.regions
	}
	share, err := p.shareOf(nodes)
	if err != nil {
		return err
	}
	if l.Traits()&weir.Leases == 0 && o.Verb != weir.Peek && !refund {
		if err := s.begin(a, o, share, nodes); err != nil {
			return err
		}
	}
	local := *o
	local.Limit = share
	if refund {
		// The share gets back what was spent of it, the shared store the rest.
		if local.Cost = 0; !sent {
			tag := s.tag(o.Key, l)
			if owed, ok := s.debts.owed(tag); ok {
				a.debts = append(a.debts, tag)
				local.Cost = min(o.Cost, owed)
			}
		}
		if rest := o.Cost - local.Cost; rest > 0 {
			a.backs = append(a.backs, awayBack{i, rest})
		}
	}
	a.add(local, i)
	return nil
}

// begin opens the debt of a key. A share that is new begins with what was last
// known to remain, divided among the nodes.
func (s *Store) begin(a *away, o *weir.Op, share *weir.Limit, nodes int64) error {
	s.debts.opening.Lock()
	defer s.debts.opening.Unlock()
	tag := s.tag(o.Key, o.Limit)
	fresh, ok := s.debts.open(tag, o.Key, o.Limit, share)
	if ok {
		a.debts = append(a.debts, tag)
	}
	if !fresh {
		return nil
	}
	remaining, known := s.refusals.Known(tag, o.Limit, clock.Node(s.link.now()))
	if !known {
		return nil
	}
	gone := share.Burst - min(remaining/nodes, share.Burst)
	if gone == 0 {
		return nil
	}
	seed := []weir.Op{{Key: o.Key, Limit: share, Cost: gone, Role: weir.Always, Verb: weir.Force}}
	return s.local.Take(context.Background(), seed)
}

// answerAway takes over what the node's store said.
func (s *Store) answerAway(local, o *weir.Op) {
	if o.Role == weir.Deny {
		return
	}
	if local.Role == weir.Deny {
		return // its decision was made before
	}
	from := weir.FromShare
	if p, err := s.plans.of(o.Limit); err == nil && p.policy == params.OnErrorLastKnown {
		from = weir.FromLastKnown
	}
	d := local.Decision
	if d.Limit != nil {
		d.Limit = o.Limit.From(from)
	}
	o.Decision, o.Now, o.Charged, o.Borrowed = d, local.Now, local.Charged, local.Borrowed
	if !local.Charged || o.Limit.Traits()&weir.Leases != 0 {
		return
	}
	tag := s.tag(o.Key, o.Limit)
	if local.Verb != weir.Refund {
		s.debts.add(tag, local.Cost)
		return
	}
	if rest, _ := s.debts.pay(tag, local.Cost); rest > 0 {
		// It was paid meanwhile.
		s.refundAway(o, rest, false)
	}
}
