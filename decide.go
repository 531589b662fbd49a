package weir

import (
	"context"
	"time"
)

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
		if d, err = l.decideRequest(ctx, r); err == nil {
			r.took = max(time.Since(began), 1)
		}
	} else {
		d, err = l.decideRequest(ctx, r)
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

func (l *Limiter) decideRequest(ctx context.Context, r *Request) (Decision, error) {
	if r.Verb > Force {
		r.ops = r.ops[:0]
		return Decision{}, ErrVerb
	}
	r.deciding = true
	ops := l.Match(r)
	r.deciding = false
	if len(ops) == 0 {
		return l.unlimited(r)
	}
	return l.decideOps(ctx, r)
}

// decideOps decides r by its ops.
func (l *Limiter) decideOps(ctx context.Context, r *Request) (Decision, error) {
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
		return l.answerDenied(r.ops), nil
	}
	var err error
	if r.Mark == nil {
		err = l.store.Take(ctx, r.ops)
	} else {
		err = takeOnce(ctx, l.store, r)
	}
	if err != nil {
		return r.undecided(err)
	}
	if r.isRepeated() {
		return r.foldRepeated(), nil
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
				if d, err = l.refuseDelayed(ctx, r, delay, wait); err != nil {
					return r.undecided(err)
				}
			}
		}
	}
	countOutcomes(r.ops)
	return d, nil
}

// refuseDelayed refuses a request that does not wait for its delay: the limit that delays
// it for so long refuses, and what was charged is given back.
func (l *Limiter) refuseDelayed(ctx context.Context, r *Request, delay, wait time.Duration) (Decision, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer stop()
	if err := l.Cancel(ctx, r); err != nil {
		return Decision{}, err
	}
	for i := range r.ops {
		o := &r.ops[i]
		d := o.Decision
		if o.Role == Enforce && d.Delay(o.Cost) == delay {
			d.RetryAfter = wait
		}
		o.Answer = Answer{Decision: d, Now: o.Now}
	}
	return Fold(r.ops), nil
}

// refundTimeout bounds the call to the store that gives back what a request was
// charged that does not wait.
const refundTimeout = 5 * time.Second

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
		o.Answer, o.Outcome = Answer{}, Uncounted
	}
}

// answerDenied answers ops of which some refuse without being asked: the one that refuses
// longest speaks.
func (l *Limiter) answerDenied(ops []Op) Decision {
	var d Decision
	for i := range ops {
		if o := &ops[i]; o.Role == Deny {
			if o.Verb != Peek {
				o.Outcome = Refused
				o.Decision.Limit.counters.Add(Refused)
			}
			if d.Limit == nil || refusesLonger(o.Decision, d) {
				d = o.Decision
			}
		}
	}
	passUnasked(ops)
	return d
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
