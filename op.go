package weir

import "github.com/weirlimit/weir/internal/micros"

// Role is what an op's answer means for the request as a whole.
type Role uint8

const (
	// Enforce: the request passes only if this op allows it.
	Enforce Role = iota
	// Soft: charged when the request passes; refuses nothing. When it would
	// have, the decision is marked soft.
	Soft
	// Shadow: tried and counted beside the enforced ops, and never heard.
	// Charged only when the request passes and the op itself allows it.
	Shadow
	// Own: the assured share of an elastic limit. The Pool op that follows it
	// is asked when Own refuses, and charged unconditionally when Own allows.
	Own
	// Pool: the shared part of an elastic limit; directly follows its Own.
	Pool
	// Always: charged with its own verb whenever every Enforce op allows.
	Always
	// Ban: refuses while exhausted; charged one unit when the request is
	// refused by another op.
	Ban
	// Deny: refuses without asking the store. Decision is set by whoever made
	// the op.
	Deny
)

// Part is which part of its limit an op carries out. A soft, elastic or banning
// limit is carried out by several ops, which stand side by side in the order ban,
// ceiling, limit, threshold or pool.
type Part uint8

const (
	// PartLimit: the limit itself.
	PartLimit Part = iota
	// PartBan: the limit on its refusals, Mode.Ban.
	PartBan
	// PartCeiling: the most that a key may spend of its own share and the pool.
	PartCeiling
	// PartThreshold: the lower threshold of a soft limit.
	PartThreshold
	// PartPool: the pool that an elastic limit borrows from.
	PartPool
)

// Op is one limit that a request meets, and the answer to it.
type Op struct {
	// Key names the counter within the limit's Scope. It is valid only for the
	// duration of the call.
	Key   string
	Limit *Limit
	// Of is the limit as it is written, of which Limit carries out Part. Nil means
	// Limit itself. Stores do not look at Of and Part.
	Of *Limit
	// Cost is in units, 0 to MaxCost.
	Cost int64
	// Headroom is how many units must stay untouched after the cost for the
	// request to pass: what is kept for requests of a higher priority.
	Headroom int64
	// ID as in Ask.
	ID int64
	// FlowsFrom is for a Refund: from when the units have flowed back, if they do, see
	// [Refiller]. Zero means that this is not known.
	FlowsFrom int64
	Part      Part
	Role      Role
	Verb      Verb
	// Penalize charges the op even when it refuses.
	Penalize bool
	// NewLease: ID was made up for one request, and nobody else knows it. Of a Spend: a
	// place that a store grants when its caller has left is given back; not for renewals.
	// Of a Refund: the place is given back later if the store does not answer.
	NewLease bool
	// Outcome is what the op counts as under its limit, filled once by the Limiter
	// when it has decided. It is Uncounted for a look, a refund, an op that was not
	// charged because another refused, and a part of a limit whose other part counts.
	Outcome Outcome
	// Descriptor is the place of the request's descriptor that the op is for.
	// Stores do not look at it.
	Descriptor uint16

	Answer
}

// Answer is what Store.Take answers to an [Op]. It is assigned whole, so that nothing is left
// in an op of an earlier decision.
type Answer struct {
	// Decision is what the limit said. For an op that was not charged it is
	// what a Peek says.
	Decision Decision
	// Now is the store's time of the decision, in microseconds since the Unix
	// epoch.
	Now int64
	// ChargedAt is when the units were charged, if that was before Now: a node
	// spends units that it has fetched ahead. Zero means Now.
	ChargedAt int64
	// Charged: the cost was taken (for a Refund: given back).
	Charged bool
	// Borrowed: the cost was taken from the pool, not from the own share.
	Borrowed bool
}

// WithDecision returns a with another decision.
func (a Answer) WithDecision(d Decision) Answer {
	a.Decision = d
	return a
}

// Set assigns all of a, on the path of a decision. A composite literal is written elsewhere
// word by word and then copied two words at a time, which waits for what was just written:
// 8 ns of a decision.
func (a *Answer) Set(d Decision, now, chargedAt int64, charged, borrowed bool) {
	a.Decision, a.Now, a.ChargedAt, a.Charged, a.Borrowed = d, now, chargedAt, charged, borrowed
}

// Written returns the limit that o is for, as it is written: Of, or Limit.
func (o *Op) Written() *Limit {
	if o.Of != nil {
		return o.Of
	}
	return o.Limit
}

// Receipt identifies a charged op to a later Refund: pass it as Op.ID, and from
// when the units flow back as Op.FlowsFrom, as [Op.Undo] does. It is the instant at which the
// spend stops to matter.
func (o *Op) Receipt() int64 {
	return o.Now + micros.Of(o.Decision.ResetAfter)
}

// AskID returns the ID by which a store asks an Algorithm about o.
func (o *Op) AskID() int64 {
	if o.Verb != Refund {
		return o.ID
	}
	return o.refundID()
}

// refundID is AskID of a Refund.
func (o *Op) refundID() int64 {
	if o.FlowsFrom != 0 {
		if o.Limit.traits&Refills != 0 {
			return -max(o.FlowsFrom, 1)
		}
	}
	return o.ID
}

// Resolve decides a request from what its ops would each say, and chooses what
// is done to each: on return op.Charged says whether a store must now run Step
// with the verb returned by [Op.Commit].
//
// Before the call every op's Decision holds the answer to its Peek, asked with
// Cost+Headroom. Resolve is pure; stores call it under the locks of all keys.
//
// All or nothing: when it returns false no op is charged, but for those that
// ask for it (Penalize, Ban).
func Resolve(ops []Op) bool {
	pass := true
	for i := range ops {
		o := &ops[i]
		switch o.Role {
		case Enforce, Ban, Deny:
			pass = pass && (o.Decision.Allowed() || o.Verb == Force || o.Verb == Refund)
		case Own:
			if !o.Decision.Allowed() && o.Verb != Force {
				pass = pass && i+1 < len(ops) && ops[i+1].Role == Pool && ops[i+1].Decision.Allowed()
			}
		}
	}
	for i := range ops {
		o := &ops[i]
		charged, borrowed := false, pass && o.Role == Pool && i > 0 && !ops[i-1].Decision.Allowed()
		switch o.Role {
		case Enforce:
			charged = pass || o.Penalize
		case Soft, Always, Pool:
			charged = pass
		case Shadow, Own:
			charged = pass && o.Decision.Allowed()
		case Ban:
			charged = !pass && o.Decision.Allowed()
		}
		o.Answer.Set(o.Decision, o.Now, 0, charged && o.Verb != Peek, borrowed)
	}
	return pass
}

// Commit returns the verb that charges a resolved op. A Spend whose room was
// not checked on its own account, or that must be charged though it was
// refused, becomes a Force.
func (o *Op) Commit() Verb {
	if o.Verb != Spend {
		return o.Verb
	}
	switch o.Role {
	case Soft, Pool, Ban:
		return Force
	case Enforce:
		if o.Penalize {
			return Force
		}
	}
	return Spend
}

// Undo returns the op that gives back cost units of what o charged.
func (o *Op) Undo(cost int64) Op { return o.undoBeyondKept(cost, 0) }

// UndoRest is Undo for an op of which nothing else is given back: its first units
// are kept and those that are given back were its last. So a bucket, to which the
// first ones have flowed back before, gets more of them. It must be called once.
func (o *Op) UndoRest(cost int64) Op { return o.undoBeyondKept(cost, o.Cost-cost) }

// undoBeyondKept returns the op that gives back cost units of what o charged, which were
// charged after the first kept ones.
func (o *Op) undoBeyondKept(cost, kept int64) Op {
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
		u.FlowsFrom = max(r.FlowsFrom(o.Limit, charged, u.ID, max(kept, 0)), 1)
	}
	return u
}
