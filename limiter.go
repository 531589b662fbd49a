package weir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Options configures a [Limiter].
type Options struct {
	// Observers are told of every decision, in order; those that are a
	// [ResultObserver] also how requests ended. Zero means none.
	Observers []Observer
	// Tracer follows decisions. Nil means none.
	Tracer Tracer
}

// Limiter decides requests by rules on a store. Safe for concurrent use.
type Limiter struct {
	store     Store
	rules     Rules
	observers []Observer
	results   []ResultObserver // those of observers that are
	tracer    Tracer           // nil for none
	requests  sync.Pool
	// only is the one plain limit of all requests, if that is what the rules
	// are: Take then needs no ops.
	only *Limit
}

// New returns a limiter. If rules are Limits they are compiled; no two of them may
// have the same Scope and algorithm, since they would spend each other's counters.
// Limiters on one store share the counters of limits that have the same Scope,
// which is a limit's rate in words where it has no name: name limits that are to
// count apart. It is an error to leave out the store, the rules, or one of a list.
func New(s Store, rules Rules, opt Options) (*Limiter, error) {
	switch {
	case s == nil:
		return nil, errors.New("weir: no store: give one, such as that of package store/memory")
	case rules == nil:
		return nil, errors.New("weir: no rules: give Limits, or a set of package rules")
	}
	l := &Limiter{store: s, rules: rules, observers: opt.Observers, tracer: opt.Tracer}
	// Where a request begins to count is drawn, so that those that are used seldom are
	// timed as often as others.
	l.requests.New = func() any { return &Request{turn: rand.Uint32()} }
	for i, o := range opt.Observers {
		if o == nil {
			return nil, fmt.Errorf("weir: observer %d of %d is nil: leave it out", i+1, len(opt.Observers))
		}
		if ro, ok := o.(ResultObserver); ok {
			l.results = append(l.results, ro)
		}
	}
	if ls, ok := rules.(Limits); ok {
		if err := ls.compile(); err != nil {
			return nil, err
		}
		if len(ls) == 1 && len(opt.Observers) == 0 && opt.Tracer == nil && ls[0].isSingleSpend() {
			l.only = ls[0]
		}
	}
	return l, nil
}

// isSingleSpend reports whether a request meets l as a single Spend, whoever asks.
func (l *Limit) isSingleSpend() bool { return l.isSimple && l.Headroom == nil && l.traits&Leases == 0 }

// Store returns the store that the limiter decides on.
func (l *Limiter) Store() Store { return l.store }

// Rules returns the rules that the limiter decides by.
func (l *Limiter) Rules() Rules { return l.rules }

// exempts reports whether the rules leave r without a limit on purpose.
func (l *Limiter) exempts(r *Request) bool {
	c, ok := l.rules.(Catalog)
	return ok && c.Exempts(r)
}

// Acquire returns an empty request from a pool. Give it back with Recycle.
func (l *Limiter) Acquire() *Request { return l.requests.Get().(*Request) }

// Recycle empties r and gives it back to the pool. The caller must not use it
// again.
func (l *Limiter) Recycle(r *Request) {
	r.Reset()
	l.requests.Put(r)
}

// Match finds the limits that r meets and returns them, keys and costs and all,
// without asking the store: their decisions are empty. They are valid until r
// is used again.
func (l *Limiter) Match(r *Request) []Op {
	r.buf = r.buf[:0]
	r.lease = 0
	r.ops = l.rules.Match(r.ops[:0], r)
	return r.ops
}
