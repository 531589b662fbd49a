package weir

import (
	"errors"
	"fmt"
)

// Mode is what a breach does, and who is let through all the same.
type Mode struct {
	// Excess makes the limit soft: so many percent above Count still pass,
	// marked soft. Zero means hard.
	Excess int64
	// Pool makes the limit elastic: what exceeds Count is taken from the pool
	// while it has room. Nil means not elastic. The pool is compiled with the
	// limit, its key is PoolKey; it is a bucket or a window, of whose Mode
	// nothing but Headroom may be set.
	Pool    *Limit
	PoolKey string
	// Ceiling is the most units per Period that one key may spend of its own
	// share and the pool together. Zero means no ceiling but the pool's.
	Ceiling int64
	// Shadow counts what would be refused and refuses nothing.
	Shadow bool
	// Rollout enforces the limit for so many percent of its keys, the same
	// keys always; for the others it is a shadow. Zero means 100.
	Rollout int64
	// Penalize charges refused requests too, so that whoever keeps on calling
	// stays refused.
	Penalize bool
	// Hidden keeps the limit from the responses to clients: no field and no text names it
	// or its numbers. It is enforced, and counted, as any other.
	Hidden bool
	// Ban refuses a key outright while this limit on its refusals is
	// exhausted; algorithm.Lockout is made for it. Nil means no bans. It is
	// compiled with the limit.
	Ban *Limit
	// Headroom[p] is how many units are kept from requests of priority p.
	// Priorities beyond its end are treated as the last. Nil means all are
	// equal.
	Headroom []int64
}

// makesOneOp reports whether a request meets a limit of the mode as one op, in the
// role Enforce.
func (m *Mode) makesOneOp() bool {
	return m.Excess == 0 && m.Pool == nil && !m.Shadow && (m.Rollout == 0 || m.Rollout == 100) &&
		!m.Penalize && m.Ban == nil
}

func (m *Mode) checkForLimit(l *Limit) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("limit %q: "+format, append([]any{l.Name}, args...)...))
	}
	if m.Excess < 0 || m.Excess > 1000 {
		bad("soft excess %d%% must be between 0 and 1000", m.Excess)
	}
	if m.Excess > 0 && m.Pool != nil {
		bad("a limit is either soft or elastic, not both")
	}
	if m.Pool != nil && m.Penalize {
		bad("an elastic limit cannot be penalizing: choose one")
	}
	if m.Rollout < 0 || m.Rollout > 100 {
		bad("rollout %d%% must be between 0 and 100", m.Rollout)
	}
	if m.Ceiling != 0 && (m.Pool == nil || m.Ceiling < l.Count) {
		bad("ceiling %d needs a pool and must be at least the count of %d", m.Ceiling, l.Count)
	}
	for p, r := range m.Headroom {
		if r < 0 || r >= max(l.Burst, l.Count) {
			bad("reserve of %d units against priority %d must be at least 0 and below the burst", r, p)
		}
	}
	leases := l.Algorithm.Traits()&Leases != 0
	if leases && (m.Excess > 0 || m.Pool != nil || m.Penalize || m.Headroom != nil) {
		bad("a concurrency limit can be neither soft, elastic, penalizing nor prioritized")
	}
	if l.Algorithm.Traits()&Shapes != 0 && (m.Excess > 0 || m.Pool != nil) {
		bad("a limit that delays can be neither soft nor elastic")
	}
	return errors.Join(errs...)
}

// Append adds the ops by which a request of the given key, cost and priority
// meets the limit. It allocates only when dst is full.
func (l *Limit) Append(dst []Op, key string, cost int64, r *Request) []Op {
	if l.isSimple {
		return appendOp(dst, l, key, cost, Enforce, r)
	}
	if l.Shadow || l.Rollout != 0 && l.Rollout < 100 && !l.enforced(key) {
		return appendOp(dst, l, key, cost, Shadow, r)
	}
	if l.Ban != nil {
		dst = l.appendPart(dst, PartBan, l.Ban, key, 1, Ban, r)
	}
	if l.Pool == nil {
		dst = appendOp(dst, l, key, cost, Enforce, r)
		dst[len(dst)-1].Penalize = l.Penalize
		if l.soft != nil {
			dst = l.appendPart(dst, PartThreshold, l.soft, key, cost, Soft, r)
		}
		return dst
	}
	if l.ceiling != nil {
		dst = l.appendPart(dst, PartCeiling, l.ceiling, key, cost, Enforce, r)
	}
	dst = appendOp(dst, l, key, cost, Own, r)
	return l.appendPart(dst, PartPool, l.Pool, l.PoolKey, cost, Pool, r)
}

// appendPart appends the op of a part of l.
func (l *Limit) appendPart(dst []Op, p Part, by *Limit, key string, cost int64, role Role, r *Request) []Op {
	dst = appendOp(dst, by, key, cost, role, r)
	o := &dst[len(dst)-1]
	o.Of, o.Part = l, p
	return dst
}

// appendOp appends one op. It writes the op where it is to stand, field by field:
// Op is large, and making one to copy it cost as much as the rest of Append
// (BenchmarkDecide in lab/bench/).
func appendOp(dst []Op, l *Limit, key string, cost int64, role Role, r *Request) []Op {
	n := len(dst)
	if n < cap(dst) {
		dst = dst[:n+1]
	} else {
		dst = append(dst, Op{})
	}
	o := &dst[n]
	o.Key, o.Limit, o.Cost, o.Headroom, o.ID = key, l, cost, 0, 0
	o.Of, o.Part, o.Outcome, o.FlowsFrom = nil, PartLimit, Uncounted, 0
	o.Role, o.Verb, o.Penalize, o.NewLease, o.Descriptor = role, r.Verb, false, false, 0
	o.Answer = Answer{}
	if l.traits&Leases != 0 {
		o.ID, o.NewLease = r.LeaseID(), r.NewLease
	}
	if k := len(l.Headroom); k > 0 && role != Ban {
		o.Headroom = l.Headroom[min(max(r.Priority, 0), k-1)]
	}
	return dst
}

// enforced reports whether key belongs to the share of keys that the rollout
// covers. It is the same on every node and after every restart.
func (l *Limit) enforced(key string) bool {
	// FNV-1a, then a finalizer so that the low bits depend on all of the key.
	// A client that finds a key outside the rollout escapes nothing that it
	// would not have escaped before the rollout began.
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return int64((h>>32)*100>>32) < l.Rollout
}
