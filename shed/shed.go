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
// The first three count in a store and are a layer of a [limits.Set], beside the
// other rules: one Limiter decides all of a request's limits together, and a
// refusal by one charges none. The fourth asks nobody else: [Shedder.Enter] before
// the decision, [Slot.Leave] when the request is done.
//
// Each limiter enforces, is a shadow, or is off, and one switch turns all of
// them off; all of that while requests are under way.
//
// Source: P. Tarjan, "Scaling your API with rate limiters", Stripe, 2017; its
// fourth limiter looks at busy workers, of which a Go server has none, so here
// it is requests under way.
package shed

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
)

// Shedder is the four limiters of one node. Safe for concurrent use.
type Shedder struct {
	opt Options

	rate, concurrency *weir.Limit // nil where there is none
	// fleet has a limit for each class. They share one counter and differ in
	// what they leave untouched, and in the name that metrics know them by.
	fleet [classes]*weir.Limit
	node  node
	layer *limits.Layer

	// Read by every request, written by operators.
	off   atomic.Bool
	modes [limiters]atomic.Uint32

	// unknown and leaseless count, as Allowed, the requests that met no limit
	// per user because it was not known whose they were, or because they had no
	// lease.
	unknown, leaseless *weir.Counters

	set sync.Mutex // orders changes
}

// New returns a shedder. All that is wrong with opt is in the error. Without
// limits it sheds nothing.
func New(opt Options) (*Shedder, error) {
	opt = opt.orDefaults()
	if err := opt.checkValues(); err != nil {
		return nil, fmt.Errorf("shed: %w", err)
	}
	s := &Shedder{opt: opt, unknown: weir.NewCounters(), leaseless: weir.NewCounters()}
	s.off.Store(opt.Off)
	if err := s.buildLimits(); err != nil {
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

// buildLimits makes the limits.
func (s *Shedder) buildLimits() error {
	if o := &s.opt.UserRate; o.Limit != (Rate{}) {
		s.rate = &weir.Limit{Name: limiterNames[userRate], Scope: s.scopeName(userRate), Algorithm: algorithm.TokenBucket,
			Count: o.Limit.Count, Period: o.Limit.Period, Burst: o.Burst}
		if err := s.rate.Compile(); err != nil {
			return err
		}
	}
	if o := &s.opt.UserConcurrency; o.Limit > 0 {
		s.concurrency = &weir.Limit{Name: limiterNames[userConcurrency], Scope: s.scopeName(userConcurrency),
			Algorithm: algorithm.Concurrency, Count: o.Limit, Period: o.TTL}
		if err := s.concurrency.Compile(); err != nil {
			return err
		}
	}
	if o := &s.opt.FleetShare; o.Limit != (Rate{}) {
		for c := range s.fleet {
			// Strict sub-windows: what is kept is a promise to critical requests
			// in any period, where a bucket would promise it after a pause only.
			l := &weir.Limit{Name: limiterNames[fleetShare] + "_" + priorityNames[c], Scope: s.scopeName(fleetShare),
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
	return errors.Join(s.node.build(&s.opt.InFlight), s.buildLayer())
}

// limited returns which limiters have a limit, where that in flight is so many.
func (s *Shedder) limited(onNode int64) [limiters]bool {
	return [limiters]bool{s.rate != nil, s.concurrency != nil, s.fleet[0] != nil, onNode > 0}
}

// scopeName names a limiter's counters. Rules files hold no control characters, so
// none of theirs is named so.
func (s *Shedder) scopeName(limiter int) string { return s.opt.Name + "\x1f" + limiterNames[limiter] }

// mode returns what a limiter does at present.
func (s *Shedder) mode(limiter int) Mode {
	if s.off.Load() {
		return Off
	}
	return Mode(s.modes[limiter].Load())
}

// Layer returns the first three limiters for a [limits.Set]. A request without an entry of
// Options.User does not meet the limits per user, one without a Lease not that on how many
// run at once. One to give back (weir.Refund, which is what weir.Limiter.Release asks with)
// finds its place among the user's requests whatever the switches say.
func (s *Shedder) Layer() *limits.Layer { return s.layer }

// buildLayer makes the layer of the limits.
func (s *Shedder) buildLayer() (err error) {
	p := &limits.Preset{By: s.opt.User, Unknown: s.unknown, Leaseless: s.leaseless}
	if s.rate != nil {
		p.PerClient = append(p.PerClient, s.switched(userRate, s.rate))
	}
	if s.concurrency != nil {
		p.PerClient = append(p.PerClient, s.switched(userConcurrency, s.concurrency))
	}
	if s.fleet[0] != nil {
		p.Common = append(p.Common, s.switched(fleetShare, s.fleet[:]...))
	}
	s.layer, err = limits.NewLayer(limits.Domain{Name: s.opt.Domain, Preset: p})
	return err
}

// switched returns the limits of a limiter, which are met as its mode says.
func (s *Shedder) switched(limiter int, of ...*weir.Limit) limits.Switched {
	return limits.Switched{Limits: of, Key: "fleet", Role: func() (weir.Role, bool) {
		mode := s.mode(limiter)
		if mode == Shadow {
			return weir.Shadow, true
		}
		return weir.Enforce, mode == Enforce
	}}
}
