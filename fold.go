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
	unanswered := false
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
			unanswered = unanswered || !o.Decision.Allowed()
			continue
		}
		if !o.Decision.Allowed() && o.Verb != Force {
			if refused == nil || longer(o.Decision, refused.Decision) {
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
		return refused.spoken()
	case unanswered:
		return Decision{}
	case tightest != nil:
		d := tightest.spoken()
		// A forced cost has passed whatever the limit thought of it.
		d.RetryAfter = 0
		return d
	}
	return AllowUnlimited()
}

// spoken is the op's decision as its request hears it: units kept for others
// do not remain for this one.
func (o *Op) spoken() Decision {
	d := o.Decision
	d.Remaining = max(d.Remaining-o.Reserve, 0)
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
	if pool.Borrowed || pool.Decision.Allowed() || longer(own.Decision, pool.Decision) {
		return pool
	}
	return own
}

// longer reports whether a is refused for longer than b.
func longer(a, b Decision) bool {
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

// Counted returns as what the i-th of the decided ops counts under its limit,
// which for an op of role Deny is its decision's. It returns false for an op that
// does not count: a look, a refund, one that was not charged because another
// refused, or a part of a limit whose other part spoke.
func Counted(ops []Op, i int) (Outcome, bool) {
	o := &ops[i]
	if o.Verb == Peek || o.Verb == Refund {
		return 0, false
	}
	allowed := o.Decision.Allowed()
	switch o.Role {
	case Enforce:
		var next *Op
		if i+1 < len(ops) {
			next = &ops[i+1]
		}
		switch {
		case next != nil && next.Role == Own && next.Limit.ceiling == o.Limit:
			return Refused, !allowed && o.Verb != Force && next.Decision.Allowed()
		case !allowed && o.Verb != Force:
			return Refused, true
		case o.Limit.traits&Shapes != 0 && o.Decision.Delay(o.Cost) > 0:
			return Delayed, o.Charged
		}
		return Allowed, o.Charged && !(next != nil && next.Role == Soft && !next.Decision.Allowed())
	case Soft:
		return SoftAllowed, o.Charged && !allowed
	case Shadow:
		if !allowed {
			return ShadowRefused, true
		}
		return Allowed, o.Charged
	case Own:
		if allowed {
			return Allowed, o.Charged
		}
		return Refused, !(i+1 < len(ops) && ops[i+1].Borrowed)
	case Pool:
		return Borrowed, o.Borrowed
	case Ban:
		return Refused, !allowed
	case Deny:
		return Refused, true
	}
	return 0, false
}

// PlainlyAllowed reports whether the i-th of the decided ops counts as Allowed, as
// most do: in less time than Counted, which tells of those for which it is false.
func PlainlyAllowed(ops []Op, i int) bool {
	o := &ops[i]
	return o.Role == Enforce && o.Verb == Spend && o.Charged && o.Decision.Allowed() &&
		o.Limit.traits&Shapes == 0 && (i+1 == len(ops) || ops[i+1].Role == Enforce)
}

// count counts the decided ops under their limits.
func count(ops []Op) {
	for i := range ops {
		o := &ops[i]
		if o.Verb == Peek || o.Verb == Refund {
			continue
		}
		if PlainlyAllowed(ops, i) {
			o.Limit.counters.Add(Allowed)
		} else if out, ok := Counted(ops, i); ok {
			o.Limit.counters.Add(out)
		}
		if o.Decision.Limit != nil && o.Decision.Limit.source != FromStore {
			o.Decision.Limit.countSource()
		}
	}
}
