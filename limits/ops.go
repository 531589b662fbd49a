package limits

import (
	"slices"

	"github.com/weirlimit/weir"
)

// found is what was found for one descriptor of a request.
type found struct {
	verdict verdict
	rule    *Rule
	limits  []*Limit
	key     string
}

// appendOps appends the ops of what was found for descriptor at.
func (f *found) appendOps(dst []weir.Op, r *weir.Request, at int) []weir.Op {
	from, desc := len(dst), &r.Descriptors[at]
	switch f.verdict {
	case denied:
		dst = append(dst, newDenyOp(f.rule.Denial, r, at))
	case overridden:
		dst = desc.Override.Append(dst, f.key, descriptorCost(r, desc), r)
	case limited:
		cost := descriptorCost(r, desc)
		for _, l := range f.limits {
			dst = l.appendOps(dst, f.key, cost, r)
		}
	}
	markOps(dst[from:], desc, at, r)
	return dst
}

// markOps makes ops those of descriptor at of the request.
func markOps(ops []weir.Op, desc *weir.Descriptor, at int, r *weir.Request) {
	if at == 0 && !desc.Peek && r.Verb != weir.Peek {
		return
	}
	for i := range ops {
		o := &ops[i]
		o.Descriptor = uint16(at)
		if desc.Peek || r.Verb == weir.Peek {
			o.Verb = weir.Peek
		}
	}
}

// appendOps appends the ops by which a request meets the limit.
func (l *Limit) appendOps(dst []weir.Op, key string, cost int64, r *weir.Request) []weir.Op {
	switch {
	case l.Unlimited:
		return dst
	case l.Denies && l.Shadow:
		// Two units never fit a limit of one: what is refused is counted.
		return append(dst, weir.Op{Key: key, Limit: l.Limit, Cost: 2, Role: weir.Shadow, Verb: r.Verb})
	case l.Denies:
		o := newDenyOp(l.Limit, r, 0)
		o.Key = key // who is refused, should the limit get another mode
		return append(dst, o)
	}
	if l.Cost > 0 {
		cost = l.Cost
	}
	if l.SharedKey != "" {
		key = l.SharedKey
	}
	if l.Priority > r.Priority {
		// Limit.Append reads it there.
		was := r.Priority
		r.Priority = l.Priority
		dst = l.Append(dst, key, cost, r)
		r.Priority = was
		return dst
	}
	return l.Append(dst, key, cost, r)
}

// newDenyOp stands apart: an Op on the stack of what appends ops costs each of them.
//
//go:noinline
func newDenyOp(l *weir.Limit, r *weir.Request, at int) weir.Op {
	return weir.Op{Limit: l, Role: weir.Deny, Verb: r.Verb, Descriptor: uint16(at), Answer: weir.Answer{Decision: weir.Decision{Limit: l, RetryAfter: weir.Never}}}
}

// replaced reports whether another limit that the request meets takes the
// place of l, however r is read. A limit that is unlimited, or is replaced itself, replaces
// too; none replaces itself, see package rules.
func replaced(l *Limit, all []found, r *weir.Request) bool {
	if l.Limit == nil || l.Alias == "" {
		return false
	}
	for i := range all {
		if r.Descriptors[i].Reading != 0 {
			continue
		}
		for _, other := range all[i].limits {
			if slices.Contains(other.Replaces, l.Alias) {
				return true
			}
		}
	}
	return false
}

// descriptorCost returns what the request says that descriptor costs.
func descriptorCost(r *weir.Request, d *weir.Descriptor) int64 {
	switch {
	case d.Cost != 0:
		return d.Cost
	case r.Cost != 0:
		return r.Cost
	}
	return 1
}
