// Package shed keeps a service answering what matters when more is asked of it
// than it can do: a preset of four limiters, from one user's doing to a node's
// last resort.
//
//	user_rate         how much one user asks for          429
//	user_concurrency  how many requests of one user run   429
//	fleet_share       how much the fleet takes on, of
//	                  which a share is kept for critical
//	                  requests                            503
//	in_flight         how many requests this node runs,
//	                  lower classes refused first         503
//
// The first three count in a store and are [weir.Rules]: put them beside the
// other rules with [Shedder.With], so that one Limiter decides all of a request's
// limits together and a refusal by one charges none. The fourth asks nobody
// else: [Shedder.Enter] before the decision, [Slot.Leave] when the request is
// done.
//
// Each limiter enforces, is a shadow, or is off, and one switch turns all of
// them off; all of that while requests are under way.
//
// Source: P. Tarjan, "Scaling your API with rate limiters", Stripe, 2017; its
// fourth limiter looks at busy workers, of which a Go server has none, so here
// it is requests under way.
package shed

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Shedder is the four limiters of one node. Safe for concurrent use.
type Shedder struct {
	opt Options

	rate, concurrency *weir.Limit // nil where there is none
	// fleet has a limit for each class. They share one counter and differ in
	// what they leave untouched, and in the name that metrics know them by.
	fleet [classes]*weir.Limit
	node  node

	// Read by every request, written by operators.
	off   atomic.Bool
	modes [limiters]atomic.Uint32

	// unknown and leaseless count, as Allowed, the requests that met no limit
	// per user because it was not known whose they were, or because they had no
	// lease.
	unknown, leaseless *weir.Counters

	set sync.Mutex // orders changes
}

var _ weir.Rules = (*Shedder)(nil)

// New returns a shedder. All that is wrong with opt is in the error. Without
// limits it sheds nothing.
func New(opt Options) (*Shedder, error) {
	opt = opt.orDefaults()
	if err := opt.check(); err != nil {
		return nil, fmt.Errorf("shed: %w", err)
	}
	s := &Shedder{opt: opt, unknown: weir.NewCounters(), leaseless: weir.NewCounters()}
	s.off.Store(opt.Off)
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("shed: %w", err)
	}
	limited := s.limited(opt.InFlight.Limit)
	for i, m := range opt.modes() {
		if !limited[i] {
			m = Off
		}
		s.modes[i].Store(uint32(m))
	}
	return s, nil
}

// build makes the limits.
func (s *Shedder) build() error {
	if o := &s.opt.UserRate; o.Limit != (Rate{}) {
		s.rate = &weir.Limit{Name: limiterNames[userRate], Scope: s.scope(userRate), Algorithm: algorithm.TokenBucket,
			Count: o.Limit.Count, Period: o.Limit.Period, Burst: o.Burst}
		if err := s.rate.Compile(); err != nil {
			return err
		}
	}
	if o := &s.opt.UserConcurrency; o.Limit > 0 {
		s.concurrency = &weir.Limit{Name: limiterNames[userConcurrency], Scope: s.scope(userConcurrency),
			Algorithm: algorithm.Concurrency, Count: o.Limit, Period: o.TTL}
		if err := s.concurrency.Compile(); err != nil {
			return err
		}
	}
	if o := &s.opt.FleetShare; o.Limit != (Rate{}) {
		for c := range s.fleet {
			// Strict sub-windows: what is kept is a promise to critical requests
			// in any period, where a bucket would promise it after a pause only.
			l := &weir.Limit{Name: limiterNames[fleetShare] + "_" + priorityNames[c], Scope: s.scope(fleetShare),
				Algorithm: algorithm.SlidingSubwindows, Count: o.Limit.Count, Period: o.Limit.Period}
			if Priority(c) != Critical {
				l.Headroom = []int64{o.reserved()}
			}
			if err := l.Compile(); err != nil {
				return err
			}
			s.fleet[c] = l
		}
	}
	return s.node.build(&s.opt.InFlight)
}

// limited returns which limiters have a limit, where that in flight is so many.
func (s *Shedder) limited(onNode int64) [limiters]bool {
	return [limiters]bool{s.rate != nil, s.concurrency != nil, s.fleet[0] != nil, onNode > 0}
}

// scope names a limiter's counters. Rules files hold no control characters, so
// none of theirs is named so.
func (s *Shedder) scope(limiter int) string { return s.opt.Name + "\x1f" + limiterNames[limiter] }

// mode returns what a limiter does at present.
func (s *Shedder) mode(limiter int) Mode {
	if s.off.Load() {
		return Off
	}
	return Mode(s.modes[limiter].Load())
}

// Match implements weir.Rules with the first three limiters. The cost of a
// request is charged to the user's rate and to the fleet; of the limits at once
// it takes one place, whatever it costs.
//
// A request without an entry of Options.User does not meet the limits per user,
// one without a Lease not that on how many run at once: nothing would tell when
// it ends.
//
// A request to give back (weir.Refund, which is what weir.Limiter.Release asks
// with) finds its place among the user's requests whatever the switches say, so
// that what was taken before a switch is given back after it.
func (s *Shedder) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	if s.opt.Domain != "" && r.Domain != s.opt.Domain {
		return dst
	}
	rate, concurrency, fleet := s.mode(userRate), s.mode(userConcurrency), s.mode(fleetShare)
	if r.Verb == weir.Refund && s.concurrency != nil {
		concurrency = Enforce
	}
	if rate != Off || concurrency != Off {
		dst = s.matchUser(dst, r, rate, concurrency)
	}
	if fleet != Off {
		dst = add(dst, s.fleet[Priority(r.Priority).class()], fleet, "fleet", costOf(r, nil), peeks(r), r)
	}
	return dst
}

// matchUser adds the limits per user.
func (s *Shedder) matchUser(dst []weir.Op, r *weir.Request, rate, concurrency Mode) []weir.Op {
	asks := r.IsDeciding() && (r.Verb == weir.Spend || r.Verb == weir.Force)
	at, e := s.user(r)
	if e == nil {
		if asks {
			s.unknown.Add(weir.Allowed)
		}
		return dst
	}
	d, from := &r.Descriptors[at], len(dst)
	key := r.Key(e.Key, e.Value)
	if rate != Off {
		dst = add(dst, s.rate, rate, key, costOf(r, d), d.Peek, r)
	}
	switch {
	case concurrency == Off:
	case r.Lease != "" || r.NewLease || r.Verb == weir.Peek || d.Peek:
		dst = add(dst, s.concurrency, concurrency, key, 1, d.Peek, r)
	case asks:
		s.leaseless.Add(weir.Allowed)
	}
	for i := from; i < len(dst); i++ {
		dst[i].Descriptor = uint16(at)
	}
	return dst
}

// user returns the entry that tells whose r is, and the place of its descriptor; nil if there
// is none.
func (s *Shedder) user(r *weir.Request) (at int, e *weir.Entry) {
	for _, key := range s.opt.User {
		for i := range r.Descriptors {
			d := &r.Descriptors[i]
			for j := range d.Entries {
				if e := &d.Entries[j]; e.Key == key && e.Value != "" {
					return i, e
				}
			}
		}
	}
	return 0, nil
}

// add appends the op of one limit.
func add(dst []weir.Op, l *weir.Limit, m Mode, key string, cost int64, peek bool, r *weir.Request) []weir.Op {
	at := len(dst)
	dst = l.Append(dst, key, cost, r)
	if m == Shadow {
		dst[at].Role = weir.Shadow
	}
	if peek {
		dst[at].Verb = weir.Peek
	}
	return dst
}

// costOf returns what r costs: by descriptor d, if it says so.
func costOf(r *weir.Request, d *weir.Descriptor) int64 {
	switch {
	case d != nil && d.Cost != 0:
		return d.Cost
	case r.Cost != 0:
		return r.Cost
	}
	return 1
}

// peeks reports whether r only looks, in all its descriptors.
func peeks(r *weir.Request) bool {
	for i := range r.Descriptors {
		if !r.Descriptors[i].Peek {
			return false
		}
	}
	return len(r.Descriptors) > 0
}

// With returns rules that are others and s together: all must allow.
func (s *Shedder) With(others weir.Rules) weir.Rules { return joined{others, s} }

// joined is two sets of rules. Others come first: they may look at what stands
// before them.
type joined struct {
	others weir.Rules
	s      *Shedder
}

// Match implements weir.Rules.
func (j joined) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	return j.s.Match(j.others.Match(dst, r), r)
}

// KeyLists implements [weir.KeyLister] by the others; nil if they cannot say.
func (j joined) KeyLists(domain string) []weir.KeyList {
	if l, ok := j.others.(weir.KeyLister); ok {
		return l.KeyLists(domain)
	}
	return nil
}

// Exempts implements weir.Exempter: what the others exempt is exempt.
func (j joined) Exempts(r *weir.Request) bool {
	e, ok := j.others.(weir.Exempter)
	return ok && e.Exempts(r)
}

// Misspelt implements [weir.Speller] by the others. In the domain that s is for, nobody can tell.
func (j joined) Misspelt(r *weir.Request) string {
	if u, ok := j.others.(weir.Speller); ok && r.Domain != j.s.opt.Domain {
		return u.Misspelt(r)
	}
	return ""
}

// Unmatched says by the others why r is likely not what was meant; empty where it is,
// or they cannot say.
func (j joined) Unmatched(r *weir.Request) string {
	if u, ok := j.others.(interface{ Unmatched(*weir.Request) string }); ok {
		return u.Unmatched(r)
	}
	return ""
}
