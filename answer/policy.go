package answer

import (
	"math/bits"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// policy is one enforced limit as a request met it, in the units of HTTP.
type policy struct {
	name string // the limit's, as it is: sanitized when written
	// quota is the most units that pass at once, window the seconds in which
	// all of it comes back; 0 for a limit on what is under way at once.
	quota, window int64
	left          int64
	// until is the microseconds until more becomes available, or -1 if that is
	// not known or will never be.
	until   int64
	refused bool
	// wait is how long the limit refuses for, for sorting.
	wait time.Duration
	// op is the limit's own; pk names its counter, once signed.
	op *weir.Op
	pk pk
}

// signCounter fills in p.pk.
func (p *policy) signCounter(by *partition) {
	if p.op.Limit != nil && p.op.Key != "" {
		p.pk = by.keyOfCounter(p.op)
	}
}

// maxPolicies is how many limits an answer lists. A request that meets more
// has the least restrictive ones left out, as the draft allows.
const maxPolicies = 16

// policies appends what ops say about the limits that are enforced, the most
// restrictive first. A limit met twice is listed once, as it is tighter.
// refused says what became of the request.
func policies(dst []policy, ops []weir.Op, refused bool) []policy {
	for i := 0; i < len(ops); i++ {
		o := &ops[i]
		if o.Decision.Limit == nil || o.Verb == weir.Refund || o.Written() != nil && o.Written().Hidden {
			continue
		}
		var p policy
		switch o.Role {
		case weir.Enforce:
			p = describe(o)
			if o.Part == weir.PartCeiling && i+2 < len(ops) {
				// The ceiling is the hard number of the elastic limit behind it.
				p = lowerPolicy(p, elastic(&ops[i+1], &ops[i+2]))
				i += 2
			} else if i+1 < len(ops) && ops[i+1].Role == weir.Soft {
				p = written(p, &ops[i+1])
				i++
			}
		case weir.Own:
			if i+1 < len(ops) && ops[i+1].Role == weir.Pool {
				p = elastic(o, &ops[i+1])
				i++
			} else {
				p = describe(o)
			}
		case weir.Ban:
			if o.Decision.Allowed() {
				continue
			}
			p = describe(o)
		case weir.Deny:
			p = policy{name: o.Decision.Limit.Name, until: -1, refused: true, wait: o.Decision.RetryAfter, op: o}
			if p.wait > 0 {
				p.until = micros.Of(p.wait)
			}
		default:
			continue
		}
		dst = insertPolicy(dst, &p)
	}
	if refused {
		// Retry-After must not point earlier than any t beside it. Only the
		// limits that refuse have a say in it, so only they state one.
		for i := range dst {
			if !dst[i].refused {
				dst[i].until = -1
			}
		}
	}
	return dst
}

// statedPolicies returns the policies that an answer with d has fields of. A client that an
// operator has banned has no limit that it could keep; a ban for refusals is a limit
// on those.
func statedPolicies(dst []policy, ops []weir.Op, d weir.Decision, refused bool) []policy {
	if refused && d.Banned() && slices.ContainsFunc(ops, func(o weir.Op) bool { return o.Role == weir.Deny && o.Decision.Limit == d.Limit }) {
		return dst
	}
	return policies(dst, ops, refused)
}

// endOfBan returns when the ban ends by which d, made of ops at now, refuses, in whole
// seconds.
func endOfBan(ops []weir.Op, d weir.Decision, now int64) time.Time {
	for i := range ops {
		if o := &ops[i]; o.Decision.Limit == d.Limit && o.Now != 0 {
			now = o.Now
		}
	}
	end := min(max(now, 0), lastInstant) + min(micros.Of(d.RetryAfter), lastInstant)
	return time.UnixMicro(min(end, lastInstant)).Add(time.Second - 1).Truncate(time.Second).UTC()
}

// describe returns what o says of its limit.
func describe(o *weir.Op) policy {
	l, d := o.Decision.Limit, o.Decision
	p := policy{
		name:    l.Name,
		quota:   max(l.Burst, 1),
		left:    max(d.Remaining, 0),
		until:   -1,
		refused: !d.Allowed() && o.Verb != weir.Force,
		wait:    d.RetryAfter,
		op:      o,
	}
	if l.Traits()&weir.Leases != 0 {
		p.quota = l.Count
		return p
	}
	p.window = refillSeconds(l)
	switch {
	case p.refused && d.RetryAfter != weir.Never:
		p.until = micros.Of(d.RetryAfter)
	case !p.refused:
		p.until = micros.Of(untilMore(l, d))
	}
	return p
}

// elastic returns the two halves of an elastic limit as one: what it admits is
// bounded by its pool, or by the assured share where that is larger.
func elastic(own, pool *weir.Op) policy {
	p, q := describe(own), describe(pool)
	name, refused := p.name, p.refused && q.refused
	if q.quota > p.quota {
		p.quota, p.window = q.quota, q.window
	}
	p.left = max(p.left, q.left)
	if p.refused && (!q.refused || q.wait != weir.Never && (p.wait == weir.Never || q.wait < p.wait)) {
		p.until, p.wait = q.until, q.wait
	}
	p.name, p.refused = name, refused
	return p
}

// written returns a soft limit with its numbers as they are written, which soft counts by:
// clients that knew the excess would use it up.
func written(hard policy, soft *weir.Op) policy {
	p := describe(soft)
	p.name, p.op = hard.name, hard.op
	if p.refused, p.wait = hard.refused, hard.wait; hard.refused || p.until < 0 {
		p.until = hard.until
	}
	return p
}

// lowerPolicy returns p as far as q leaves it room.
func lowerPolicy(p, q policy) policy {
	p.left = min(p.left, q.left)
	if tighter(&q, &p) {
		p.until, p.wait, p.refused = q.until, q.wait, q.refused
	}
	return p
}

// refillSeconds returns the seconds, rounded up, in which the whole of the limit
// comes back: Burst units at Count per Period.
func refillSeconds(l *weir.Limit) int64 {
	us := micros.Of(l.Period)
	hi, lo := bits.Mul64(uint64(max(l.Burst, 1)), uint64(us))
	if per := uint64(l.Count); hi < per {
		us = int64(min(quotient(hi, lo, per), uint64(weir.Forever/time.Microsecond)))
	} else {
		us = int64(weir.Forever / time.Microsecond)
	}
	return max(ceilSeconds(micros.Duration(us)), 1)
}

// quotient returns the 128-bit number hi, lo divided by n, rounded up.
func quotient(hi, lo, n uint64) uint64 {
	q, r := bits.Div64(hi, lo, n)
	if r > 0 && q < 1<<63 {
		q++
	}
	return q
}

// untilMore returns how long after the allowed decision d more becomes available,
// or a bound on it: a bucket gains its units one by one, a window is sure to
// have gained by its end.
func untilMore(l *weir.Limit, d weir.Decision) time.Duration {
	if d.ResetAfter == 0 {
		return 0
	}
	switch l.Algorithm.Name() {
	case "token_bucket", "leaky_bucket", "leaky_queue":
		unit := micros.Duration(int64(quotient(0, uint64(micros.Of(l.Period)), uint64(l.Count))))
		if rest := d.ResetAfter % unit; rest > 0 {
			return rest
		}
		return unit
	}
	if l.Anchor == params.AnchorCalendar {
		return d.ResetAfter
	}
	return min(d.ResetAfter, l.Period)
}

// insertPolicy puts p where it belongs in dst, which is sorted.
func insertPolicy(dst []policy, p *policy) []policy {
	for i := range dst {
		if q := &dst[i]; q.name == p.name && q.quota == p.quota && q.window == p.window {
			if !tighter(p, q) {
				return dst
			}
			dst = slices.Delete(dst, i, i+1)
			break
		}
	}
	at := len(dst)
	for at > 0 && tighter(p, &dst[at-1]) {
		at--
	}
	if len(dst) == maxPolicies {
		if at == maxPolicies {
			return dst
		}
		dst = dst[:maxPolicies-1]
	}
	return slices.Insert(dst, at, *p)
}

// tighter reports whether p restricts the client more than q: it refuses for
// longer, or has a smaller share left.
func tighter(p, q *policy) bool {
	if p.refused != q.refused {
		return p.refused
	}
	if p.refused && p.wait != q.wait {
		return p.wait == weir.Never || q.wait != weir.Never && p.wait > q.wait
	}
	phi, plo := bits.Mul64(uint64(p.left), uint64(q.quota))
	qhi, qlo := bits.Mul64(uint64(q.left), uint64(p.quota))
	return phi < qhi || phi == qhi && plo < qlo
}

// appendPolicy appends p as a member of RateLimit-Policy.
func appendPolicy(b []byte, p *policy) []byte {
	b = appendString(b, p.name)
	b = appendNumber(b, ";q=", p.quota)
	switch {
	case p.window > 0:
		b = appendNumber(b, ";w=", p.window)
	case p.quota > 0:
		b = append(b, `;qu="concurrent-requests"`...)
	}
	return appendPK(b, p.pk)
}

// appendState appends p as a member of RateLimit.
func appendState(b []byte, p *policy) []byte {
	b = appendString(b, p.name)
	b = appendNumber(b, ";r=", p.left)
	if p.until >= 0 {
		b = appendNumber(b, ";t=", divideUp(p.until, 1_000_000))
	}
	return appendPK(b, p.pk)
}

// appendWindow appends p as a member of RateLimit-Policy of revision 07.
func appendWindow(b []byte, p *policy) []byte {
	b = appendInteger(b, p.quota)
	return appendNumber(b, ";w=", p.window)
}

// appendDictionary appends p as RateLimit of revision 07, which requires all
// three: nothing, while until is unknown.
func appendDictionary(b []byte, p *policy, until int64) []byte {
	if until < 0 {
		return b
	}
	b = appendNumber(b, "limit=", p.quota)
	b = appendNumber(b, ", remaining=", p.left)
	return appendNumber(b, ", reset=", divideUp(until, 1_000_000))
}
