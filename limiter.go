package weir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
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
func (l *Limit) isSingleSpend() bool { return l.simple && l.Headroom == nil && l.traits&Leases == 0 }

// Store returns the store that the limiter decides on.
func (l *Limiter) Store() Store { return l.store }

// Rules returns the rules that the limiter decides by.
func (l *Limiter) Rules() Rules { return l.rules }

// Take spends cost units of key: a request with the single entry ("key", key).
// A cost of zero looks and spends nothing. It does not allocate.
//
// Take is for [Limits]. Where the rules have no limit for that entry, and do not
// exempt it (see [Exempter]), it returns ErrNoKey. With any error the Decision is
// the zero Decision, which refuses.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (Decision, error) {
	if cost < 0 || cost > MaxCost {
		return Decision{}, ErrCost
	}
	if l.only == nil {
		return l.takeRequest(ctx, key, cost)
	}
	d, err := l.store.TakeOne(ctx, key, l.only, cost)
	if err == nil && d.Limit == nil {
		err = errUndecided
	}
	if err != nil {
		return Decision{}, err
	}
	countOne(l.only, d)
	return d, nil
}

// TakeLimit spends cost units of key under limit, which must be compiled,
// without asking the rules: for limits that come with a call. What their Mode says
// holds as under rules. A cost of zero looks, spends nothing and is not counted. Observers are told as of any request,
// but that Op.Now is zero, since the store does not tell its time. It does not
// allocate. It returns ErrNotCompiled for a limit that is nil or not compiled;
// with any error the Decision is the zero Decision, which refuses.
func (l *Limiter) TakeLimit(ctx context.Context, key string, limit *Limit, cost int64) (Decision, error) {
	if cost < 0 || cost > MaxCost {
		return Decision{}, ErrCost
	}
	if limit == nil || !limit.compiled {
		return Decision{}, ErrNotCompiled
	}
	if !limit.simple || limit.Headroom != nil {
		return l.takeMode(ctx, key, limit, cost)
	}
	d, err := l.store.TakeOne(ctx, key, limit, cost)
	if err == nil && d.Limit == nil {
		err = errUndecided
	}
	if err != nil {
		d = Decision{}
	} else if cost > 0 {
		countOne(limit, d)
	}
	if len(l.observers) > 0 {
		l.notify(key, limit, cost, d, err)
	}
	return d, err
}

// takeMode is TakeLimit for a limit that is met as several ops, or not as one that
// must allow.
func (l *Limiter) takeMode(ctx context.Context, key string, limit *Limit, cost int64) (Decision, error) {
	r := l.Acquire()
	defer l.Recycle(r)
	r.entries = append(r.entries[:0], Entry{"key", key})
	r.Descriptors = append(r.Descriptors, Descriptor{Entries: r.entries})
	r.Cost = cost
	if cost == 0 {
		r.Verb = Peek
	}
	r.ops = limit.Append(r.ops, key, cost, r)
	d, err := l.take(ctx, r)
	for _, o := range l.observers {
		o.Observe(r, d, err)
	}
	return d, err
}

// notify tells observers of a decision that was made without ops.
func (l *Limiter) notify(key string, limit *Limit, cost int64, d Decision, err error) {
	r := l.Acquire()
	o := Op{Key: key, Limit: limit, Cost: cost, Decision: d, Charged: d.Allowed() && cost > 0}
	if cost == 0 {
		o.Verb = Peek
	}
	r.Cost, r.Verb = cost, o.Verb
	r.ops = append(r.ops, o)
	if err == nil {
		r.ops[0].Outcome = outcome(r.ops, 0)
	}
	for _, obs := range l.observers {
		obs.Observe(r, d, err)
	}
	r.ops[0].Key = "" // the caller's, which may be a buffer that is used again
	l.Recycle(r)
}

func (l *Limiter) takeRequest(ctx context.Context, key string, cost int64) (Decision, error) {
	r := l.Acquire()
	defer l.Recycle(r)
	r.entries = append(r.entries[:0], Entry{"key", key})
	r.Descriptors = append(r.Descriptors, Descriptor{Entries: r.entries})
	r.Cost = cost
	if cost == 0 {
		r.Verb = Peek
	}
	d, err := l.Decide(ctx, r)
	if err == nil && len(r.ops) == 0 && !l.exempts(r) {
		return Decision{}, ErrNoKey
	}
	return d, err
}

// exempts reports whether the rules leave r without a limit on purpose.
func (l *Limiter) exempts(r *Request) bool {
	e, ok := l.rules.(Exempter)
	return ok && e.Exempts(r)
}

// countOne counts a decision under l, its only limit.
func countOne(l *Limit, d Decision) {
	o := Allowed
	if !d.Allowed() {
		o = Refused
	}
	l.counters.Add(o)
	if d.Limit != l {
		countSource(d.Limit)
	}
}

// countSource counts a decision under l that was not made from the store's exact
// state.
func countSource(l *Limit) {
	switch {
	case l.source == FromSketch:
		l.counters.Add(Estimated)
	case l.source >= FromShare:
		l.counters.Add(Degraded)
	}
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

// Decide answers r. All limits that it meets must allow it, else none is
// charged. On return r tells in detail what each limit said.
//
// With an error no decision was made: the Decision returned with it, and those of
// r's ops, are zero Decisions, which refuse. It returns ErrNoRequest for a nil r
// and, under [Limits], for one without descriptors, ErrVerb for a Verb that is not Spend, Peek or Force, ErrCost for a cost out of
// range, ErrNotCompiled for a limit of the rules that is nil or not compiled,
// ErrNoLease for a concurrency limit without a Lease, and the store's error.
func (l *Limiter) Decide(ctx context.Context, r *Request) (Decision, error) {
	if r == nil {
		return Decision{}, ErrNoRequest
	}
	var end func(Decision, error)
	if l.tracer != nil {
		ctx, end = l.tracer.Begin(ctx, r)
	}
	var d Decision
	var err error
	if r.took = 0; len(l.observers) > 0 && r.isTimed() {
		began := time.Now()
		if d, err = l.decide(ctx, r); err == nil {
			r.took = max(time.Since(began), 1)
		}
	} else {
		d, err = l.decide(ctx, r)
	}
	if end != nil {
		end(d, err)
	}
	for _, o := range l.observers {
		o.Observe(r, d, err)
	}
	return d, err
}

// isTimed reports whether it is r's turn to be timed: one in LatencyEvery.
func (r *Request) isTimed() bool {
	r.turn++
	return r.turn%LatencyEvery == 0
}

func (l *Limiter) decide(ctx context.Context, r *Request) (Decision, error) {
	if r.Verb > Force {
		r.ops = r.ops[:0]
		return Decision{}, ErrVerb
	}
	if len(l.Match(r)) == 0 {
		return l.unlimited(r)
	}
	return l.take(ctx, r)
}

// take decides r by its ops.
func (l *Limiter) take(ctx context.Context, r *Request) (Decision, error) {
	denied := false
	for i := range r.ops {
		o := &r.ops[i]
		switch {
		case o.Limit == nil || !o.Limit.compiled:
			return r.undecided(ErrNotCompiled)
		case o.Cost < 0 || o.Cost > MaxCost || o.Cost+o.Headroom > MaxCost:
			return r.undecided(ErrCost)
		}
		denied = denied || o.Role == Deny
	}
	if denied {
		return l.deny(r.ops), nil
	}
	if err := l.store.Take(ctx, r.ops); err != nil {
		return r.undecided(err)
	}
	d := Fold(r.ops)
	if !d.Allowed() {
		if d == (Decision{}) {
			return r.undecided(errUndecided)
		}
		passUnasked(r.ops)
	} else if r.AcceptDelay != nil {
		if delay := r.Delay(); delay > 0 {
			if wait := r.AcceptDelay(ctx, delay); wait != 0 {
				var err error
				if d, err = l.refuse(ctx, r, delay, wait); err != nil {
					return r.undecided(err)
				}
			}
		}
	}
	count(r.ops)
	return d, nil
}

// refuse refuses a request that does not wait for its delay: the limit that delays
// it for so long refuses, and what was charged is given back.
func (l *Limiter) refuse(ctx context.Context, r *Request, delay, wait time.Duration) (Decision, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer stop()
	if err := l.Cancel(ctx, r); err != nil {
		return Decision{}, err
	}
	for i := range r.ops {
		o := &r.ops[i]
		o.Charged, o.Borrowed = false, false
		if o.Role == Enforce && o.Decision.Delay(o.Cost) == delay {
			o.Decision.RetryAfter = wait
		}
	}
	return Fold(r.ops), nil
}

// refundTimeout bounds the call to the store that gives back what a request was
// charged that does not wait.
const refundTimeout = 5 * time.Second

// passUnasked says of ops of a refused request that were not asked, since another
// refused before, that they do not refuse: the zero Decision would.
func passUnasked(ops []Op) {
	for i := range ops {
		if o := &ops[i]; o.Decision.Limit == nil && o.Decision == (Decision{}) {
			o.Decision = AllowUnlimited()
		}
	}
}

// unlimited decides a request that meets no limit. What is an error under a limit
// is one here too, and so is a request without descriptors under Limits, which
// every descriptor meets.
func (l *Limiter) unlimited(r *Request) (Decision, error) {
	if r.Cost < 0 || r.Cost > MaxCost {
		return Decision{}, ErrCost
	}
	for i := range r.Descriptors {
		if c := r.Descriptors[i].Cost; c < 0 || c > MaxCost {
			return Decision{}, ErrCost
		}
	}
	if ls, ok := l.rules.(Limits); ok && len(ls) > 0 && len(r.Descriptors) == 0 {
		return Decision{}, ErrNoRequest
	}
	return AllowUnlimited(), nil
}

// undecided returns err with the zero Decision, and takes back what the ops say.
func (r *Request) undecided(err error) (Decision, error) {
	clearAnswers(r.ops)
	return Decision{}, err
}

// clearAnswers empties the answers of ops that no decision was made by.
func clearAnswers(ops []Op) {
	for i := range ops {
		o := &ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed, o.Outcome = Decision{}, 0, false, false, Uncounted
	}
}

// deny answers ops of which some refuse without being asked: the one that refuses
// longest speaks.
func (l *Limiter) deny(ops []Op) Decision {
	var d Decision
	for i := range ops {
		if o := &ops[i]; o.Role == Deny {
			if o.Verb != Peek {
				o.Outcome = Refused
				o.Decision.Limit.counters.Add(Refused)
			}
			if d.Limit == nil || longer(o.Decision, d) {
				d = o.Decision
			}
		}
	}
	passUnasked(ops)
	return d
}

// Wait is Decide for callers who would rather be late than refused: it sleeps
// until the request may proceed, for a shaping limit as long as it says, and
// else as long as RetryAfter says, again and again. Under a concurrency limit it
// asks again up to once a second, since nobody knows when the others are done. It
// returns the last decision, refused only if the request can never pass, and
// ctx.Err() when ctx ends first: then the decision refuses, and what was charged
// is given back. If ctx would end before the wait is over it does not wait.
func (l *Limiter) Wait(ctx context.Context, r *Request) (Decision, error) {
	for poll := leastPoll; ; poll = min(2*poll, mostPoll) {
		d, err := l.Decide(ctx, r)
		if err != nil || d.RetryAfter == Never {
			return d, err
		}
		wait := d.RetryAfter
		switch {
		case d.Allowed():
			wait = r.Delay()
		case d.Limit != nil && d.Limit.traits&Leases != 0:
			// RetryAfter is when those who hold a place lose it if they died.
			wait = min(wait, poll)
		}
		if wait == 0 {
			return d, nil
		}
		if err := sleep(ctx, wait); err != nil {
			if d.Allowed() {
				err = joinCancel(err, l.Cancel(context.WithoutCancel(ctx), r))
				d = Decision{}
			}
			return d, err
		}
		if d.Allowed() {
			return d, nil
		}
	}
}

// How often Wait asks again for a place under a concurrency limit.
const (
	leastPoll = 10 * time.Millisecond
	mostPoll  = time.Second
)

func joinCancel(err, cancel error) error {
	if cancel != nil {
		return fmt.Errorf("%w (and giving the place back failed: %w)", err, cancel)
	}
	return err
}

// sleep waits for d, unless ctx ends within it: then it returns at once.
func sleep(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Delay returns how long the allowed request must wait before it proceeds: the
// longest delay of its limits.
func (r *Request) Delay() time.Duration {
	var longest time.Duration
	for i := range r.ops {
		if o := &r.ops[i]; o.Role == Enforce {
			longest = max(longest, o.Decision.Delay(o.Cost))
		}
	}
	return longest
}

// Soft reports whether the request passed above the threshold of a soft limit.
func (r *Request) Soft() bool {
	for i := range r.ops {
		if o := &r.ops[i]; o.Role == Soft && !o.Decision.Allowed() {
			return true
		}
	}
	return false
}

// Borrowed reports whether the request passed on units of a pool.
func (r *Request) Borrowed() bool {
	for i := range r.ops {
		if r.ops[i].Borrowed {
			return true
		}
	}
	return false
}

// Guarantee returns what the last decision promises: AtMost and Envelope are those
// of the limit that spoke, the Limit of the decision, and the rest is the weakest
// promise of the enforced limits that it met.
func (r *Request) Guarantee() Guarantee {
	g := Decision{Limit: speaking(r.ops), Remaining: MaxCost}.Guarantee()
	for i := range r.ops {
		o := &r.ops[i]
		if o.Role == Shadow || o.Role == Soft || o.Decision.Limit == nil {
			continue
		}
		og := o.Decision.Guarantee()
		if og.Degraded && !g.Degraded || g.Exact && !og.Exact {
			g.Source = og.Source
		}
		g.Exact, g.Degraded = g.Exact && og.Exact, g.Degraded || og.Degraded
		g.OverAdmit = max(g.OverAdmit, og.OverAdmit)
	}
	return g
}

// speaking returns the limit that a decision by ops names, nil for none.
func speaking(ops []Op) *Limit {
	var d Decision
	for i := range ops {
		if o := &ops[i]; o.Role == Deny && (d.Limit == nil || longer(o.Decision, d)) {
			d = o.Decision
		}
	}
	if d.Limit == nil {
		d = Fold(ops)
	}
	return d.Limit
}

// Cancel gives back what the last decision on r charged: a place in a queue if
// nobody has queued behind it, units of windows that are still open, a lease.
// What an approximate limit has counted stays spent.
func (l *Limiter) Cancel(ctx context.Context, r *Request) error {
	var buf [8]Op
	ops := buf[:0]
	for i := range r.ops {
		// A store refuses a refund to a sketch, and with it all the others.
		if o := &r.ops[i]; o.Charged && o.Verb != Refund && o.Limit.traits&Sketches == 0 {
			ops = append(ops, o.Undo(o.Cost))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return l.store.Take(ctx, ops)
}

// Release ends the lease that r was decided under, wherever it is held: an
// idempotent Cancel by name. r is matched anew, as a Refund so that rules which
// were switched off meanwhile can tell, and nothing else is charged.
func (l *Limiter) Release(ctx context.Context, r *Request) error {
	if r.Lease == "" {
		return ErrNoLease
	}
	verb := r.Verb
	r.Verb = Refund
	ops := l.Match(r)
	r.Verb = verb
	kept := ops[:0]
	for _, o := range ops {
		if o.Limit.traits&Leases != 0 {
			kept = append(kept, o.Undo(o.Cost))
		}
	}
	r.ops = kept
	if len(kept) == 0 {
		return nil
	}
	return l.store.Take(ctx, kept)
}

// Apply charges ops as they are, without rules, and answers like Decide. No ops
// are an error, since nothing is asked.
func (l *Limiter) Apply(ctx context.Context, ops []Op) (Decision, error) {
	if len(ops) == 0 {
		return Decision{}, ErrNoRequest
	}
	for i := range ops {
		if o := &ops[i]; o.Limit == nil || !o.Limit.compiled {
			clearAnswers(ops)
			return Decision{}, ErrNotCompiled
		}
	}
	if err := l.store.Take(ctx, ops); err != nil {
		clearAnswers(ops)
		return Decision{}, err
	}
	d := Fold(ops)
	if d == (Decision{}) {
		clearAnswers(ops)
		return d, errUndecided
	}
	return d, nil
}

// Undo returns the op that gives back cost units of what o charged.
func (o *Op) Undo(cost int64) Op { return o.undo(cost, 0) }

// UndoRest is Undo for an op of which nothing else is given back: its first units
// are kept and those that are given back were its last. So a bucket, to which the
// first ones have flowed back before, gets more of them. It must be called once.
func (o *Op) UndoRest(cost int64) Op { return o.undo(cost, o.Cost-cost) }

// undo returns the op that gives back cost units of what o charged, which were
// charged after the first kept ones.
func (o *Op) undo(cost, kept int64) Op {
	u := Op{Key: o.Key, Limit: o.Limit, Cost: cost, ID: o.ID, Role: Always, Verb: Refund, NewLease: o.NewLease}
	if o.Limit.traits&Leases != 0 {
		return u
	}
	u.ID = o.Receipt()
	if r, ok := o.Limit.Algorithm.(Refiller); ok {
		charged := o.ChargedAt
		if charged == 0 {
			charged = o.Now
		}
		u.ChargedAt = max(r.FlowsFrom(o.Limit, charged, u.ID, max(kept, 0)), 1)
	}
	return u
}
