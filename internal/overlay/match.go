package overlay

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// A match is one request on its way through what operators changed.
type match struct {
	*set
	variants *variants
	board    *board
	r        *weir.Request
	at       int64 // the time of the request, once it was asked for
}

// requestTime returns the time of the request.
func (m *match) requestTime() int64 {
	if m.at == 0 {
		m.at = m.board.storeTime()
	}
	return m.at
}

// toNothing is what a request costs that never fits a limit of 1.
const toNothing = 2

// applyModes lays the modes over the ops of the rules, dst[from:]: bans follow them. It
// returns the ops and the new end of those of the rules.
func (m *match) applyModes(dst []weir.Op, from int) ([]weir.Op, int) {
	n := len(dst)
	for i := from; i < n; i++ {
		op := &dst[i]
		if op.Limit == nil || op.Part != weir.PartLimit {
			continue
		}
		mode := m.byLimit[limitID{op.Limit.Scope, op.Limit.Name}]
		if mode == nil || mode.hasEnded(m.requestTime()) || mode.Mode == Off && m.r.Verb == weir.Refund {
			continue
		}
		begin, end := partsOf(dst[:n], i)
		begin = max(begin, from)
		var buf [4]weir.Op // a ban, a ceiling, the limit, its pool or lower threshold
		instead := buf[:0]
		if mode.Mode == Off {
			if mark := m.markOf(op); mark != nil && mark.ban != nil {
				dst = mark.appendRefusal(m.variants.madeByMark(mark, op.Limit), dst, i, m.requestTime(), m.r)
			}
		} else {
			made := m.variants.madeByMode(mode, op.Limit)
			if made.to == nil {
				continue
			}
			instead = made.appendOps(instead, op, m.r)
		}
		dst = replace(dst, begin, end, instead)
		n += len(instead) - (end - begin)
		i = begin + len(instead) - 1
	}
	return dst, n
}

// appendOps appends the ops by which the request of op meets the limit in its mode.
func (m *made) appendOps(dst []weir.Op, op *weir.Op, r *weir.Request) []weir.Op {
	was, cost := r.Priority, op.Cost
	r.Priority = max(was, m.priority)
	if m.denial != nil {
		cost = toNothing
	}
	dst = m.to.Append(dst, op.Key, cost, r)
	r.Priority = was
	if m.denial != nil && dst[0].Role != weir.Shadow {
		// Refused without asking the store.
		dst[0] = weir.Op{Key: op.Key, Limit: m.denial, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: m.denial, RetryAfter: weir.Never}}}
	}
	for i := range dst {
		dst[i].Verb, dst[i].Descriptor = op.Verb, op.Descriptor
	}
	return dst
}

// applyKeys lays the entries of single keys over the ops of the rules, dst[from:n].
func (m *match) applyKeys(dst []weir.Op, from, n int) []weir.Op {
	for i := from; i < n; i++ {
		op := &dst[i]
		if op.Limit == nil || op.Role == weir.Deny || op.Part != weir.PartLimit {
			continue
		}
		mark := m.markOf(op)
		if mark == nil {
			continue
		}
		now, made := m.requestTime(), m.variants.madeByMark(mark, op.Limit)
		begin, end := partsOf(dst[:n], i)
		begin = max(begin, from)
		if e := mark.override; e != nil && made.with != nil && !e.hasEnded(now) {
			override(dst[begin:end], made.with)
		}
		if e := mark.allow; e != nil && !e.hasEnded(now) && op.Role != weir.Shadow {
			shadow := *op
			shadow.Role, shadow.Penalize = weir.Shadow, false
			dst[begin] = shadow
			dst = slices.Delete(dst, begin+1, end)
			n -= end - begin - 1
			i = begin
		}
		dst = mark.appendRefusal(made, dst, i, now, m.r)
	}
	return dst
}

// markOf returns what there is about the key of an op, nil for nothing.
func (m *match) markOf(op *weir.Op) *mark { return m.marks[counter{op.Limit.Scope, op.Key}] }

// appendRefusal appends the refusal of dst[at] if its key is banned.
func (m *mark) appendRefusal(v *made, dst []weir.Op, at int, now int64, r *weir.Request) []weir.Op {
	if e := m.ban; e != nil && v.banned != nil && !e.hasEnded(now) && r.Verb != weir.Force && r.Verb != weir.Refund {
		op := &dst[at]
		wait := micros.Duration(e.Until - now)
		dst = append(dst, weir.Op{Key: op.Key, Limit: v.banned, Cost: op.Cost, Role: weir.Deny, Verb: op.Verb, Descriptor: op.Descriptor,
			Answer: weir.Answer{Now: now, Decision: weir.Decision{Limit: v.banned, RetryAfter: wait, ResetAfter: wait}}})
	}
	return dst
}

// refuseClient appends the refusal of the request if it carries an entry that is banned
// over its domain.
func (m *match) refuseClient(dst []weir.Op) []weir.Op {
	r := m.r
	if r.Verb == weir.Force || r.Verb == weir.Refund {
		return dst
	}
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			b := m.banOf(r.Domain, e, m.requestTime())
			if b == nil {
				continue
			}
			wait := micros.Duration(b.entry.Until - m.requestTime())
			return append(dst, weir.Op{Key: e.Value, Limit: b.limit, Cost: 1, Role: weir.Deny, Verb: r.Verb, Descriptor: uint16(i),
				Answer: weir.Answer{Now: m.requestTime(), Decision: weir.Decision{Limit: b.limit, RetryAfter: wait, ResetAfter: wait}}})
		}
	}
	return dst
}
