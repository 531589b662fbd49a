// Package outage decides limits while the shard of their key does not answer, as each
// limit's on_store_error says, and charges the store afterwards with what was admitted.
//
// Allow and deny keep no state. By local and last_known the node decides on its own
// store, by its share of the limit, and each key that it admits something of has a debt:
//
//	          a call without an answer            the shard answers
//	[present] -----------------------> [out] -----------------------> [owing]
//	    ^      share set up, less what  |  ^   nothing is given back    | | ^
//	    |      was known to be gone     +--+   yet                      | | | not charged:
//	    |                     owed += cost  ^                           | | | tried again
//	    |                                   | shard out again: the      | +-+
//	    |                                   | same share, the same debt |
//	    |                                   +---------------------------+
//	    |   acknowledged, or lost: the share goes back, but for what    |
//	    |   the store perhaps does not count                            |
//	    +---------------------------------------------------------------+
//
// So the share is set up once, however often the shard goes out and comes back before
// the debt is acknowledged. The three states are not written down: a key without a debt
// is present, and one with a debt is out while calls for it have no answer.
//
// Who owns what:
//
//   - The share is a limit of the node's own store, which counts it; nothing else is
//     charged by it.
//   - A debt is made by the first decision by a share, which also sets that up: others
//     wait for it. Decisions add what they admit. A debt with decisions under way is
//     not paid, and stays.
//   - [Outage.PayDebts] alone begins payments, and the end of one ends the debt. A payment without
//     an answer is made again, and counts once, see transport.Repeater. When the store may
//     have forgotten whether it was carried out it is lost: the share stays used by it.
//   - A caller whose context has ended gets its own error: that says nothing of the
//     shard, and begins no outage. Where a decision is needed all the same, allow is read
//     as local, so no caller gets past a limit by leaving early.
//   - Units given back lower the debt of their key. What exceeds it the shared store
//     gets when it answers, by [lot.Returns].
//
// The lock of the debts is taken last, and never held while a store is called.
package outage

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// Env is what the decider is given. It must not be changed while it is in use.
type Env struct {
	lot.Env
	// Local is the node's own store, which keeps the shares.
	Local weir.Store
	// Terms returns those of a limit.
	Terms func(l *weir.Limit) (*Terms, error)
	// IsOpen reports whether the breaker of a key's shard is open: its debts wait.
	IsOpen func(key string) bool
	// Failed, if there is one, notes why a decision is made without the store.
	Failed func(err error)
	// Once has each call carried out once, in the background, and calls end of each when it
	// is over, with when it was sent and nil or why it has no answer.
	Once func(calls [][]weir.Op, end func(i int, sent clock.Node, err error))
}

// An Outage decides while shards are out. Safe for concurrent use.
type Outage struct {
	// Degraded counts requests that were decided without the shared store; Paid and Lost
	// units that it was charged with afterwards, or that it perhaps never counts.
	Degraded, Paid, Lost atomic.Uint64

	*Env
	spare sync.Pool // of *decision
	max   int64     // bytes of debts
	mu    sync.Mutex
	// debts are all by tag; order is the same in the order in which they began, and some
	// that have ended. Both are guarded by mu, and so are bytes.
	debts map[uint64]*debt
	order []*debt
	bytes int64
}

// New returns a decider whose debts take so many bytes at most.
func New(env *Env, bytes int64) *Outage {
	return &Outage{Env: env, max: bytes, debts: map[uint64]*debt{}, spare: sync.Pool{New: func() any { return new(decision) }}}
}

// Terms are how a limit is decided without the shared store. Safe for concurrent use.
type Terms struct {
	limit   *weir.Limit
	policy  params.StoreErrorPolicy
	regions int64
	last    atomic.Pointer[share]
}

// A share is a limit divided into so many parts.
type share struct {
	parts int64
	limit *weir.Limit
}

// NewTerms returns the terms of a limit that the nodes of so many regions hold together.
func NewTerms(l *weir.Limit, regions int) *Terms {
	return &Terms{limit: l, policy: cmp.Or(l.Consistency.OnStoreError, params.OnErrorLocal), regions: int64(regions)}
}

// shareOfParts returns one of so many parts of the limit. All of them have its rate and its
// burst, but for what is rounded up to a unit each; buckets and queues have the exact
// rate: the same count in so many times the period.
func (t *Terms) shareOfParts(parts int64) (*weir.Limit, error) {
	if s := t.last.Load(); s != nil && s.parts == parts {
		return s.limit, nil
	}
	l := t.limit
	s, err := lot.Variant(l, func(v *weir.Limit) {
		v.Scope += "\x1fshare"
		switch l.Algorithm {
		case algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.LeakyQueue, algorithm.Throttle:
			v.Burst = max(l.Burst/parts, 1)
			if parts <= int64(weir.MaxPeriod/l.Period) {
				v.Period *= time.Duration(parts)
				return
			}
		}
		v.Count = max(l.Count/parts, 1)
	})
	if err == nil {
		t.last.Store(&share{parts, s})
	}
	return s, err
}
