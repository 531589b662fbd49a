package weir

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"
)

// Entry is one fact about a request: what it is, and its value.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Descriptor is a list of facts that rules are matched against, outermost
// first.
type Descriptor struct {
	Entries []Entry
	// Cost in units. Zero means the request's.
	Cost int64
	// Peek looks at the limits of this descriptor without spending.
	Peek bool
	// Reading tells readings apart of a request that servers may read in several ways, as
	// from one user or another: the descriptor exempts from no limit but its own, and no
	// other reading has its tier. Zero means that every reader finds the descriptor.
	Reading uint8
	// Override replaces the limit of the matching rule. Nil means the rule's.
	Override *Limit
}

// Request is one question to a [Limiter], and the answer in detail. The zero
// value can be filled and used; reusing it saves its buffers. Not safe for
// concurrent use.
type Request struct {
	// Domain names the set of rules.
	Domain string
	// Descriptors are matched one by one; all that match must allow.
	Descriptors []Descriptor
	// Cost in units. Zero means 1; to look without spending set Verb to Peek.
	Cost int64
	// Verb is what to do: Spend, Peek, or Force for a cost that is already
	// incurred.
	Verb Verb
	// Priority of the request, 0 the highest, for limits with Mode.Headroom.
	Priority int
	// Lease names the unit of work for concurrency limits. Deciding again with
	// the same Lease renews it; see Limiter.Release.
	Lease string
	// AcceptDelay is asked whether the request waits for the delay after which its limits
	// would allow it: zero says that it does. Any other value is the RetryAfter of a
	// refusal, and what was charged is given back. Nil waits for any delay.
	AcceptDelay func(ctx context.Context, delay time.Duration) (retryAfter time.Duration)
	// NewLease says that the lease is of this request alone: Lease was made up for it
	// and nobody else knows it, or Lease is empty and each decision draws an ID at
	// random where a limit asks for one. See Op.NewLease.
	NewLease bool
	// Mark has the request be charged once, however often it is decided: a spend that has room
	// once, decided in the call that charges the request, all or nothing, on a counter of its
	// Key beside the first that is charged. Where it refuses, the request passed before: it
	// passes, and is charged nothing. Its answer is left in it. While the store does not
	// answer, or cannot decide all in one call, the request is not decided. Nil means none.
	Mark *Op
	// Facts is what is known about the client, for observers; nothing is decided
	// by it. It must hold until the request is used again. Nil means nothing is
	// known.
	Facts Facts

	ops     []Op
	buf     []byte
	entries []Entry
	lease   int64 // the ID of the lease, 0 until it is asked for
	// turn counts decisions, across Reset: the time of one in LatencyEvery is taken.
	turn uint32
	took time.Duration
	// deciding: the rules are matched for a decision.
	deciding bool
}

// IsDeciding reports, while the rules match r, whether that is for a decision, and not to see
// which limits r would meet: rules that count what they see count decisions only.
func (r *Request) IsDeciding() bool { return r.deciding }

// Reset empties the request and keeps its buffers.
//
// What the buffers hold is left to be overwritten: clearing them took a tenth
// of a decision (BenchmarkDecide in lab/bench/).
func (r *Request) Reset() {
	r.Domain, r.Lease, r.Mark, r.Facts = "", "", nil, nil
	r.Descriptors = r.Descriptors[:0]
	r.Cost, r.Verb, r.Priority, r.AcceptDelay, r.NewLease = 0, Spend, 0, nil, false
	r.ops, r.buf, r.entries, r.lease = r.ops[:0], r.buf[:0], r.entries[:0], 0
}

// Took returns how long it took to match the rules and to ask the store for the last
// decision of [Limiter.Decide]. Zero means that it was not timed: there is no observer, no
// decision was made, or it was another's turn, as one in [LatencyEvery] is timed.
func (r *Request) Took() time.Duration { return r.took }

// Ops returns the limits that the last decision met and what each said. They
// are valid until the request is used again.
func (r *Request) Ops() []Op { return r.ops }

// Key joins parts into the key of an op. Each part's length is told, so that
// no two lists of parts give the same key; a single part is its own key. The
// result lives as long as the request is not used again.
func (r *Request) Key(parts ...string) string {
	switch {
	case len(parts) == 1:
		return parts[0]
	case len(parts) == 2 && len(parts[0]) < 10:
		return r.joinTwoParts(parts[0], parts[1])
	}
	from := len(r.buf)
	buf := r.buf
	for i, p := range parts {
		if i > 0 {
			buf = append(buf, 0x1f)
		}
		buf = append(buf, p...)
	}
	// The lengths of all parts but the last make the join unambiguous though
	// parts may hold the separator.
	for _, p := range parts[:max(len(parts)-1, 0)] {
		if n := len(p); n < 10 {
			buf = append(buf, 0x1f, byte('0'+n))
		} else {
			buf = appendUint(append(buf, 0x1f), uint64(n))
		}
	}
	r.buf = buf
	if len(buf) == from {
		return ""
	}
	return unsafe.String(&buf[from], len(buf)-from)
}

// KeyOf returns the key that the values of d make. It lives as long as that of Key.
func (r *Request) KeyOf(d *Descriptor) string {
	switch es := d.Entries; len(es) {
	case 1:
		return es[0].Value
	case 2:
		return r.Key(es[0].Value, es[1].Value)
	default:
		var buf [8]string
		parts := buf[:0]
		for i := range es {
			parts = append(parts, es[i].Value)
		}
		return r.Key(parts...)
	}
}

// joinTwoParts is Key of two parts, the first shorter than ten bytes, as most keys of several
// are.
func (r *Request) joinTwoParts(a, b string) string {
	from, size := len(r.buf), len(a)+len(b)+3
	r.buf = slices.Grow(r.buf, size)[:from+size]
	key := r.buf[from:]
	n := copy(key, a)
	key[n] = 0x1f
	n += 1 + copy(key[n+1:], b)
	key[n], key[n+1] = 0x1f, byte('0'+len(a))
	return unsafe.String(unsafe.SliceData(key), len(key))
}

func appendUint(b []byte, n uint64) []byte {
	if n >= 10 {
		b = appendUint(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// LeaseID returns the ID by which an [Ask] names the request's lease: by the name
// Lease the same on every node, two names sharing one with a chance of 2^-62; drawn
// once in a match where there is no name and NewLease is set; else zero, no lease.
func (r *Request) LeaseID() int64 {
	switch {
	case r.lease != 0:
	case r.Lease == "" && r.NewLease:
		r.lease = int64(rand.Uint64()>>1 | 1)
	default:
		r.lease = leaseID(r.Lease)
	}
	return r.lease
}

// leaseID returns the ID of the lease of a name.
func leaseID(name string) int64 {
	if name == "" {
		return 0
	}
	h := sha256.Sum256([]byte(name))
	return int64(binary.LittleEndian.Uint64(h[:8])>>1 | 1)
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
		if o := &ops[i]; o.Role == Deny && (d.Limit == nil || refusesLonger(o.Decision, d)) {
			d = o.Decision
		}
	}
	if d.Limit == nil {
		d = Fold(ops)
	}
	return d.Limit
}
