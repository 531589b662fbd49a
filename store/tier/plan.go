package tier

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A plan is how one limit is decided. It is immutable but for its share.
type plan struct {
	limit *weir.Limit
	mode  weir.ConsistencyMode // never the default
	// recall: refusals are remembered.
	recall bool
	policy weir.StoreErrorPolicy // never the default
	ttl    int64                 // of a lease, microseconds
	// central is the limit that units of a bucket are fetched by: what flows in
	// while they are out is kept back from its burst.
	central *weir.Limit
	bucket  bool
	// share is the node's part of the limit while the store is away.
	share atomic.Pointer[share]
	// used is when the plan was last looked up, in the node's seconds.
	used atomic.Int64
}

// A share is a limit for one of so many nodes.
type share struct {
	nodes int64
	limit *weir.Limit
}

// minTTL is the shortest lease: a fetch should be well over when it ends.
const minTTL = 5 * time.Millisecond

func newPlan(l *weir.Limit) (*plan, error) {
	p := &plan{limit: l, mode: mode(l), policy: l.Consistency.OnStoreError, ttl: weir.Micros(l.LeaseTTL())}
	if p.policy == weir.OnErrorDefault {
		p.policy = weir.OnErrorLocal
	}
	t := l.Traits()
	p.recall = t&(weir.Leases|weir.Sketches) == 0 && !l.Penalize && l.Pool == nil
	switch l.Consistency.DenyCache {
	case weir.DenyCacheOff:
		p.recall = false
	case weir.DenyCacheAuto:
		// The place of whoever leaves a queue is free at once.
		p.recall = p.recall && t&weir.Shapes == 0
	}
	return p, nil
}

// mode returns how l is decided.
func mode(l *weir.Limit) weir.ConsistencyMode {
	m := l.Consistency.Mode
	switch {
	case l.Traits()&weir.Sketches != 0:
		// A sketch stays on its node.
		return weir.ConsistencyLocal
	case m == weir.ConsistencyLocal, m == weir.ConsistencyStrict:
		return m
	}
	return weir.ConsistencyStrict
}

// shareOf returns the part of l of one of so many nodes. All parts together have
// the rate and the burst of l, but for what is rounded up to one unit each.
//
// Buckets and queues keep their exact rate: the same count in so many times the
// period.
func (p *plan) shareOf(nodes int64) (*weir.Limit, error) {
	if s := p.share.Load(); s != nil && s.nodes == nodes {
		return s.limit, nil
	}
	l := p.limit
	s := &weir.Limit{
		Name: l.Name, Scope: l.Scope + "\x1fshare", Algorithm: l.Algorithm, Count: l.Count,
		Period: l.Period, Burst: l.Burst, Params: l.Params,
	}
	if l.Algorithm == algorithm.TokenBucket || l.Algorithm == algorithm.LeakyBucket || l.Algorithm == algorithm.LeakyQueue {
		s.Burst = max(l.Burst/nodes, 1)
		if nodes <= int64(weir.MaxPeriod/l.Period) {
			s.Period = l.Period * time.Duration(nodes)
		} else {
			s.Count = max(l.Count/nodes, 1)
		}
	} else {
		s.Count, s.Burst = max(l.Count/nodes, 1), 0
	}
	if err := s.Compile(); err != nil {
		return nil, err
	}
	p.share.Store(&share{nodes, s})
	return s, nil
}

// plans finds the plan of a limit.
type plans struct {
	all  sync.Map // *weir.Limit to *plan
	link *link
}

// of returns the plan of l.
func (ps *plans) of(l *weir.Limit) (*plan, error) {
	if v, ok := ps.all.Load(l); ok {
		p := v.(*plan)
		if now := ps.link.now() / 1e6; p.used.Load() != now {
			p.used.Store(now)
		}
		return p, nil
	}
	p, err := newPlan(l)
	if err != nil {
		return nil, err
	}
	p.used.Store(ps.link.now() / 1e6)
	v, _ := ps.all.LoadOrStore(l, p)
	return v.(*plan), nil
}

// planLife is how long a plan that nobody asks for is kept, in seconds. Limits
// come and go as rules are reloaded.
const planLife = 600

// sweep forgets the plans of limits that are no longer in use.
func (ps *plans) sweep() {
	before := ps.link.now()/1e6 - planLife
	ps.all.Range(func(l, v any) bool {
		if v.(*plan).used.Load() < before {
			ps.all.Delete(l)
		}
		return true
	})
}
