package weir

import "math/bits"

// Fold makes one decision of the answers of several ops. Refused: the limit
// with the longest wait speaks, Never before all. Allowed: the limit with the
// smallest share left speaks. Shadows and soft thresholds are not heard. It is the
// decision of [AllowUnlimited] where no op is heard, and the zero Decision, which
// refuses, where an op that is heard has no answer and no other refuses: a store need
// not ask about the rest of a request that is refused.
func Fold(ops []Op) Decision {
	var refused, tightest *Op
	undecided := false
	for i := range ops {
		o := &ops[i]
		switch o.Role {
		case Enforce, Ban, Deny:
		case Own:
			o = speaker(ops, i)
		default:
			continue
		}
		if o.Verb == Refund {
			continue
		}
		if o.Decision.Limit == nil && (o.Decision.Allowed() || o.Decision == Decision{}) {
			undecided = undecided || !o.Decision.Allowed()
			continue
		}
		if !o.Decision.Allowed() && o.Verb != Force {
			if refused == nil || refusesLonger(o.Decision, refused.Decision) {
				refused = o
			}
			continue
		}
		// A ban that is not in force says nothing of interest.
		if o.Role != Ban && (tightest == nil || tighter(o.Decision, tightest.Decision)) {
			tightest = o
		}
	}
	switch {
	case refused != nil:
		return refused.withoutHeadroom()
	case undecided:
		return Decision{}
	case tightest != nil:
		d := tightest.withoutHeadroom()
		// A forced cost has passed whatever the limit thought of it.
		d.RetryAfter = 0
		return d
	}
	return AllowUnlimited()
}

// passUnasked says of ops of a refused request that were not asked, since another
// refused before, that they do not refuse: the zero Decision would.
func passUnasked(ops []Op) {
	for i := range ops {
		if o := &ops[i]; o.Decision.Limit == nil && o.Decision == (Decision{}) {
			o.Answer.Set(AllowUnlimited(), o.Now, 0, false, false)
		}
	}
}

// withoutHeadroom is the op's decision as its request hears it: units kept for others
// do not remain for this one.
func (o *Op) withoutHeadroom() Decision {
	d := o.Decision
	d.Remaining = max(d.Remaining-o.Headroom, 0)
	return d
}

// speaker returns which of an elastic limit's two ops, own at i and its pool,
// decided: the pool where it was borrowed from, and on a refusal whichever
// opens first.
func speaker(ops []Op, i int) *Op {
	own := &ops[i]
	if own.Decision.Allowed() || i+1 >= len(ops) || ops[i+1].Role != Pool {
		return own
	}
	pool := &ops[i+1]
	if pool.Borrowed || pool.Decision.Allowed() || refusesLonger(own.Decision, pool.Decision) {
		return pool
	}
	return own
}

// refusesLonger reports whether a is refused for longer than b.
func refusesLonger(a, b Decision) bool {
	if a.RetryAfter == Never || b.RetryAfter == Never {
		return a.RetryAfter == Never && b.RetryAfter != Never
	}
	return a.RetryAfter > b.RetryAfter
}

// tighter reports whether a smaller share of a's limit remains than of b's.
func tighter(a, b Decision) bool {
	// Compare a.Remaining/a.Limit.Burst with b's by cross-multiplication.
	ahi, alo := bits.Mul64(uint64(max(a.Remaining, 0)), uint64(max(b.Limit.Burst, 1)))
	bhi, blo := bits.Mul64(uint64(max(b.Remaining, 0)), uint64(max(a.Limit.Burst, 1)))
	return ahi < bhi || ahi == bhi && alo < blo
}

// outcome returns what the i-th of the decided ops counts as under its limit.
func outcome(ops []Op, i int) Outcome {
	o := &ops[i]
	if o.Verb == Peek || o.Verb == Refund {
		return Uncounted
	}
	allowed := o.Decision.Allowed()
	refuses := !allowed && o.Verb != Force
	switch o.Role {
	case Enforce:
		switch {
		case o.Part == PartCeiling:
			// Where the own share refuses as well, that counts.
			if refuses && i+1 < len(ops) && ops[i+1].Decision.Allowed() {
				return Refused
			}
		case refuses:
			return Refused
		case !o.Charged:
		case o.Limit.traits&Shapes != 0 && o.Decision.Delay(o.Cost) > 0:
			return Delayed
		case i+1 == len(ops) || ops[i+1].Role != Soft || ops[i+1].Decision.Allowed():
			return Allowed
		}
	case Soft:
		if o.Charged && !allowed {
			return SoftAllowed
		}
	case Shadow:
		switch {
		case !allowed:
			return ShadowRefused
		case o.Charged:
			return Allowed
		}
	case Own:
		switch {
		case !allowed && (i+1 == len(ops) || !ops[i+1].Borrowed):
			return Refused
		case allowed && o.Charged:
			return Allowed
		}
	case Pool:
		if o.Borrowed {
			return Borrowed
		}
	case Ban:
		if !allowed {
			return Refused
		}
	case Deny:
		return Refused
	}
	return Uncounted
}

// countOutcomes fills in the outcomes of the decided ops, and counts them.
func countOutcomes(ops []Op) {
	for i := range ops {
		o := &ops[i]
		o.Outcome = outcome(ops, i)
		if o.Outcome != Uncounted {
			o.Limit.counters.Add(o.Outcome)
		}
		if l := o.Decision.Limit; l != nil && l.source != FromStore && o.Verb != Peek && o.Verb != Refund {
			countSource(l)
		}
	}
}
