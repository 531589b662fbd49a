package shared

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/outage"
	"github.com/weirlimit/weir/store/internal/permit"
)

// A policy is how one limit is decided. It is immutable, but for when it was used.
type policy struct {
	limit   *weir.Limit
	mode    params.ConsistencyMode // never the default
	decider lot.Decider            // nil: the node's own store decides
	flights int                    // that a draw waits for, see mostFlights
	isMark  bool                   // of a call: only the server that keeps it decides
	// source is that of decisions by what the node holds.
	source weir.Source
	outage *outage.Terms
	// generation is that of the policies when it was made.
	generation int64
	used       atomic.Int64 // when it was looked up last, in the node's seconds
}

// modeOf returns how a limit is decided by what it asks for, or by otherwise if it does
// not say: the table of docs/explanation/consistency.md.
func modeOf(l *weir.Limit, otherwise params.ConsistencyMode) params.ConsistencyMode {
	asked, t := l.Consistency.Mode, l.Traits()
	if asked == params.ConsistencyDefault {
		asked = otherwise
	}
	// A request meets the limit by its own cost alone, so fetched units are all that it needs.
	isSimple := l.Excess == 0 && l.Pool == nil && !l.Penalize && l.Ban == nil && l.Mode.Headroom == nil
	switch {
	case t&weir.Sketches != 0:
		return params.ConsistencyLocal // a sketch stays on its node
	case asked == params.ConsistencyLocal, asked == params.ConsistencyStrict:
		return asked
	case !isSimple || l.Burst < lot.LeastShare:
		return params.ConsistencyStrict
	case t&weir.Lends != 0 && asked == params.ConsistencyEventual:
		return params.ConsistencyEventual
	case t&weir.Lends != 0:
		return params.ConsistencyLeased
	case t&weir.Leases != 0 && asked == params.ConsistencyLeased:
		return params.ConsistencyLeased // only if it says so: a permit goes back to the node that gave it
	}
	return params.ConsistencyStrict
}

// A joiner is a shared store by which several regions count some limits together, each with
// a store of its own, such as that of package region. Within a region their units are
// leased.
type joiner interface {
	// Join returns how many regions count a limit together, one if each counts it alone, and
	// how many units one may admit that the others do not know of. A limit is joined before
	// the store is asked by a variant of it.
	Join(l *weir.Limit) (regions int, most int64, err error)
}

// newPolicy returns the policy of a limit, with the decider that its mode has. It is
// decided strictly where the numbers leave nothing for a decider to do. The error is one of
// weir.Limit.Compile.
func (s *Store) newPolicy(l *weir.Limit) (p *policy, err error) {
	if l.Cells == 0 {
		return nil, fmt.Errorf("shared: limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	}
	p = &policy{limit: l, mode: modeOf(l, s.mode), flights: mostFlights, isMark: l.Consistency.Pinned}
	countsOnly := s.nodes.countsOnly.Load()
	regions, most := 1, int64(weir.MaxCost) // how many count the limit together, and what one may admit and not report
	if r, ok := s.shared.(joiner); ok && p.mode != params.ConsistencyLocal {
		if regions, most, err = r.Join(l); err != nil {
			return nil, err
		}
		if regions > 1 && p.mode == params.ConsistencyEventual {
			p.mode = params.ConsistencyLeased
		}
	}
	p.outage = outage.NewTerms(l, regions)
	switch {
	case p.mode == params.ConsistencyLocal:
		return p, nil
	case p.mode == params.ConsistencyLeased && l.Traits()&weir.Leases != 0:
		var terms *permit.Terms
		if terms, err = permit.NewTerms(l); terms != nil {
			p.decider, p.source = &permit.Decider{Env: s.permits, Terms: terms}, weir.FromLease
			p.flights = mostPermitFlights
		}
	case p.mode == params.ConsistencyLeased:
		var terms *leased.Terms
		if terms, err = leased.NewTerms(l, !countsOnly && regions == 1); terms != nil {
			p.decider, p.source = &leased.Decider{Env: s.leased, Terms: terms}, weir.FromLease
			if regions > 1 {
				terms.CountForRegions(most)
				p.source = weir.FromCounts
			}
		}
	case p.mode == params.ConsistencyEventual && !countsOnly: // else it cannot count a report once only
		var terms *eventual.Terms
		if terms, err = eventual.NewTerms(l); terms != nil {
			p.decider, p.source = &eventual.Decider{Env: s.eventual, Terms: terms}, weir.FromCounts
		}
	}
	if p.decider == nil {
		p.mode, p.decider = params.ConsistencyStrict, newStrict(s, l)
	}
	return p, err
}

// mayHoldUnits reports whether the node may hold what was charged by the limit.
func (p *policy) mayHoldUnits() bool {
	return p.mode == params.ConsistencyLeased || p.mode == params.ConsistencyEventual
}

// canDraw reports whether the decider may decide o.
func (p *policy) canDraw(o *weir.Op) bool {
	switch {
	case o.Cost == 0 || o.Headroom != 0 || o.Penalize:
		return false
	case o.Role == weir.Enforce:
		return o.Verb == weir.Spend || o.Verb == weir.Peek && p.mayHoldUnits()
	case o.Role == weir.Always && p.limit.Traits()&weir.Leases != 0, o.Role == weir.Shadow:
		return o.Verb == weir.Spend && p.mayHoldUnits()
	}
	return false
}

// canLearn reports whether the decider can use the store's answer to o: what it may decide
// itself, and of limits that it holds something of what is charged or given back.
func (p *policy) canLearn(o *weir.Op) bool {
	return p.canDraw(o) || p.mayHoldUnits() && (o.Role == weir.Enforce || o.Role == weir.Always) && (o.Verb == weir.Force || o.Verb == weir.Refund)
}

// labelLimit returns the limit that a decision of the store names, by the source that it has.
func (p *policy) labelLimit(a weir.Decision) *weir.Limit {
	switch {
	case a.Limit != p.limit:
		return p.limit.From(a.Guarantee().Source) // it was asked by another, on the same counters
	case p.mode == params.ConsistencyEventual:
		return p.limit.From(weir.FromCounts) // it may be overshot all the same
	}
	return p.limit
}

const (
	// recentPolicies is how many policies are found at once.
	recentPolicies = 64
	// maxPolicies is the most policies that are kept.
	maxPolicies = 1 << 16
	// policyLife is how long a policy is kept that is not used, in seconds. Limits come and
	// go as rules are reloaded.
	policyLife = 600
)

// Policies finds the policy of a limit. Limits can be made on the fly, without end: when
// there are too many, all policies are forgotten.
type policies struct {
	// recent are those that were found last: a look there takes a third of one in all.
	recent [recentPolicies]atomic.Pointer[policy]
	all    sync.Map // *weir.Limit to *policy
	count  atomic.Int64
	// generation counts how often all were forgotten. A policy of an earlier one is not used.
	generation atomic.Int64
	// second is the node's time in seconds, as of the last look in the background: a
	// decision need not read the clock to note that a policy is in use.
	second atomic.Int64
	make   func(l *weir.Limit) (*policy, error)
}

// forLimit returns the policy of l. It does not allocate if there is one.
func (ps *policies) forLimit(l *weir.Limit) (*policy, error) {
	p := ps.recent[l.ID()%recentPolicies].Load()
	if p == nil || p.limit != l || p.generation != ps.generation.Load() {
		return ps.findOrMake(l)
	}
	if now := ps.second.Load(); p.used.Load() != now {
		p.used.Store(now)
	}
	return p, nil
}

// findOrMake looks for the policy of l in all, or makes it, and has it be found at once from then
// on.
func (ps *policies) findOrMake(l *weir.Limit) (p *policy, err error) {
	generation := ps.generation.Load()
	if v, ok := ps.all.Load(l); ok && v.(*policy).generation == generation {
		p = v.(*policy)
		p.used.Store(ps.second.Load())
	} else if p, err = ps.addPolicy(l, generation); err != nil {
		return nil, err
	}
	ps.recent[l.ID()%recentPolicies].Store(p)
	return p, nil
}

// addPolicy makes the policy of l, and returns it, or one that was made meanwhile.
func (ps *policies) addPolicy(l *weir.Limit, generation int64) (*policy, error) {
	p, err := ps.make(l)
	if err != nil {
		return nil, err
	}
	p.generation = generation
	p.used.Store(ps.second.Load())
	v, loaded := ps.all.LoadOrStore(l, p)
	switch {
	case loaded && v.(*policy).generation == generation:
		return v.(*policy), nil
	case loaded:
		ps.all.Store(l, p) // the other was made before all were forgotten, and stored after
	case ps.count.Add(1) > maxPolicies:
		ps.clear()
	}
	return p, nil
}

func (ps *policies) clear() {
	ps.generation.Add(1)
	ps.all.Clear()
	ps.count.Store(0)
}

// sweepUnused forgets the policies of limits that are no longer in use.
func (ps *policies) sweepUnused() {
	before := ps.second.Load() - policyLife
	ps.all.Range(func(l, v any) bool {
		if p := v.(*policy); p.used.Load() < before {
			ps.all.Delete(l)
			ps.recent[p.limit.ID()%recentPolicies].CompareAndSwap(p, nil)
			ps.count.Add(-1)
		}
		return true
	})
}
