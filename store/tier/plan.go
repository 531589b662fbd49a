package tier

import (
	"errors"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A plan is how one limit is decided. It is immutable but for its share.
type plan struct {
	limit *weir.Limit
	mode  params.ConsistencyMode // never the default
	// recall: refusals are remembered.
	recall bool
	policy params.StoreErrorPolicy // never the default
	ttl    int64                   // of a lease or the longest it lies idle, microseconds
	brief  int64                   // ttl of more than few units
	// Of a leased limit: its algorithm, whether its units are bound to no window,
	// and into how many fetches a node divides its share.
	lender weir.Lender
	bucket bool
	share4 int64
	// trickle is how many units flow back at a time where they do so all the time;
	// 0 where they come back together.
	trickle int64
	// source is what decisions from a lease promise.
	source weir.Source
	// central is the limit that a leased bucket is asked by on the shared store:
	// what flows in while units are out is kept back from its burst. Nil means
	// the limit itself.
	central *weir.Limit
	// grained is the limit by which units of a sliding window are fetched: they count
	// from when the last of them may be spent. Nil means central, or the limit itself.
	grained *weir.Limit
	// marks count the fetches of each key; nil: fetches are not numbered.
	marks *[numbers]*weir.Limit
	// Of a leased concurrency limit: for how long a place is held, for how much
	// longer units are fetched so that they can be handed out meanwhile, and the
	// limit by which they are.
	period, spare int64
	slots         *weir.Limit
	// counting is what an eventual limit adds.
	counting *counting
	// regions is how many count the limit together below this store, and most how many
	// units one of them may admit that the others do not know of; zero of others.
	regions, most int64
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

// few is how many units are lent for longer than it takes to use up more of them, so
// that a key which comes seldom does not ask the shared store each time.
const few = 16

// life returns for how long so many units are lent.
func (p *plan) life(units int64) int64 {
	if units > few {
		return p.brief
	}
	return p.ttl
}

// minTTL is the shortest lease: a fetch should be well over when it ends.
const minTTL = 10 * time.Millisecond

func newPlan(l *weir.Limit, otherwise params.ConsistencyMode, node string, plain bool, j joiner) (*plan, error) {
	p := &plan{limit: l, mode: mode(l, otherwise), policy: l.Consistency.OnStoreError}
	if p.policy == params.OnErrorDefault {
		p.policy = params.OnErrorLocal
	}
	t := l.Traits()
	p.recall = t&(weir.Leases|weir.Sketches) == 0 && !l.Penalize && l.Pool == nil
	switch l.Consistency.DenyCache {
	case params.DenyCacheOff:
		p.recall = false
	case params.DenyCacheAuto:
		// The place of whoever leaves a queue is free at once.
		p.recall = p.recall && t&weir.Shapes == 0
	}
	if j != nil && p.mode != params.ConsistencyLocal && !plain {
		if regions, most, err := j.Join(l); err != nil || regions > 1 {
			p.regions, p.most = int64(regions), most
			return p, errors.Join(err, p.leaseInRegion())
		}
	}
	switch p.mode {
	case params.ConsistencyLeased:
		if err := p.lend(); err != nil || plain || p.mode != params.ConsistencyLeased || p.slots != nil {
			return p, err
		}
		return p, p.newMarks(node)
	case params.ConsistencyEventual:
		if plain {
			// It cannot count what was told only once.
			p.mode = params.ConsistencyStrict
			return p, nil
		}
		return p, p.count(node)
	}
	return p, nil
}

// mode returns how l is decided, if it does not say as otherwise has it.
func mode(l *weir.Limit, otherwise params.ConsistencyMode) params.ConsistencyMode {
	m := l.Consistency.Mode
	if m == params.ConsistencyDefault {
		m = otherwise
	}
	switch {
	case l.Traits()&weir.Sketches != 0:
		// A sketch stays on its node.
		return params.ConsistencyLocal
	case m == params.ConsistencyLocal, m == params.ConsistencyStrict:
		return m
	case l.Traits()&weir.Lends != 0 && alone(&l.Mode) && l.Burst >= leastShare:
		if m == params.ConsistencyEventual {
			return m
		}
		return params.ConsistencyLeased
	case m == params.ConsistencyLeased && l.Traits()&weir.Leases != 0 && alone(&l.Mode) && l.Count >= leastShare:
		// Only if it says so: a place must be given back to the node that gave it.
		return m
	}
	return params.ConsistencyStrict
}

// alone reports whether a request meets a limit of the mode by nothing but its
// own cost, so that units that were fetched are all that it takes.
func alone(m *weir.Mode) bool {
	return m.Excess == 0 && m.Pool == nil && !m.Penalize && m.Ban == nil && m.Headroom == nil
}

// A joiner is a shared store on which regions count limits together, see package region.
type joiner interface {
	Join(l *weir.Limit) (regions int, most int64, err error)
}

// leaseInRegion has the units of a limit be leased within the region.
func (p *plan) leaseInRegion() (err error) {
	if p.mode == params.ConsistencyEventual {
		p.mode = params.ConsistencyLeased
	}
	if p.mode == params.ConsistencyLeased {
		err = p.lend()
	}
	p.source = weir.FromCounts
	return err
}

// lend fills the plan of a leased limit, or makes it strict if its leases would
// be too short to be worth a fetch.
func (p *plan) lend() error {
	l := p.limit
	ttl := l.LeaseTTL()
	if l.Traits()&weir.Leases != 0 {
		return p.lendSlots(ttl)
	}
	p.lender = l.Algorithm.(weir.Lender)
	if err := p.setGrain(ttl); err != nil {
		return err
	}
	// A unit that is spent at the epoch is charged to a window that begins then.
	if length := p.spendBy(0); length == math.MaxInt64 {
		p.bucket = true
	} else {
		ttl = min(ttl, time.Duration(length)*time.Microsecond)
	}
	if ttl < minTTL {
		p.mode = params.ConsistencyStrict
		return nil
	}
	p.ttl, p.share4, p.source = micros.Of(ttl), l.Consistency.Share, weir.FromLease
	p.brief = p.ttl
	if l.Consistency.LeaseTTL == 0 {
		p.brief = min(p.ttl, time.Second.Microseconds())
	}
	if p.share4 == 0 {
		p.share4 = 4
	}
	switch {
	case p.bucket:
		p.trickle = p.limit.Burst
	case l.Algorithm == algorithm.SlidingCounter:
		p.trickle = l.Inflow()
	}
	switch {
	case !p.bucket:
		return nil
	case l.Consistency.Loose:
		p.source = weir.FromLooseLease
		return nil
	}
	p.central = &weir.Limit{
		Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period,
		Burst: max(l.Burst-l.Inflow(), 1), Params: l.Params,
	}
	p.trickle = p.central.Burst
	return p.central.Compile()
}

// setGrain chooses for how many sub-windows units of a sliding window are fetched:
// for about ttl. Each but the first has them leave a sub-window later.
func (p *plan) setGrain(ttl time.Duration) error {
	l := p.limit
	if l.Algorithm != algorithm.SlidingWindow {
		return nil
	}
	const most = 4
	for g := 1; g <= most; g++ {
		grained := &weir.Limit{
			Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Params: l.Params,
		}
		grained.Grain = g
		if err := grained.Compile(); err != nil {
			return err
		}
		p.grained = grained
		if by := p.spendBy(0); by+by/int64(2*g) >= micros.Of(ttl) {
			break
		}
	}
	return nil
}

// fetchBy returns the limit by which units are fetched from the shared store.
func (p *plan) fetchBy(units int64) *weir.Limit {
	if p.grained != nil {
		return p.grained
	}
	return p.by(units)
}

// receiptAt returns the receipt of units that are fetched at now for a key never
// seen, and spendBy until when they may be spent.
func (p *plan) receiptAt(now int64) int64 {
	l := p.limit
	if p.grained != nil {
		l = p.grained
	}
	d := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Now: now, Cost: 1})
	return now + micros.Of(d.ResetAfter)
}

func (p *plan) spendBy(now int64) int64 { return p.lender.SpendBy(p.limit, p.receiptAt(now)) }

// lendSlots fills the plan of a leased concurrency limit. On the shared store units
// are held for a quarter longer than by whoever gets them: those that are handed out
// until then are still held there when his time ends.
func (p *plan) lendSlots(ttl time.Duration) error {
	l := p.limit
	spare := (l.Period / 4).Truncate(time.Microsecond)
	if ttl < minTTL || l.Period+spare > weir.MaxPeriod {
		p.mode = params.ConsistencyStrict
		return nil
	}
	p.ttl, p.period, p.spare, p.source = micros.Of(ttl), micros.Of(l.Period), micros.Of(spare), weir.FromLease
	if p.share4 = l.Consistency.Share; p.share4 == 0 {
		p.share4 = 4
	}
	p.slots = &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period + spare, Params: l.Params}
	return p.slots.Compile()
}

// lendable is the most that the shared store can have to lend.
func (p *plan) lendable() int64 {
	if p.central != nil {
		return p.central.Burst
	}
	return p.limit.Burst
}

// flows reports whether units are bound to no window.
func (p *plan) flows() bool { return p.lender.SpendBy(p.limit, 0) == math.MaxInt64 }

// costsAs reports whether a unit costs as much under p as under o.
func (p *plan) costsAs(o *plan) bool {
	return !p.bucket && !o.bucket || p.limit.Count == o.limit.Count && p.limit.Period == o.limit.Period
}

// inflowTime returns how long so many units take to flow back into a bucket, in
// microseconds, rounded up.
func (p *plan) inflowTime(units int64) int64 {
	hi, lo := bits.Mul64(uint64(units), uint64(micros.Of(p.limit.Period)))
	lo, carry := bits.Add64(lo, uint64(p.limit.Count)-1, 0)
	if hi += carry; hi >= uint64(p.limit.Count) {
		return micros.Of(weir.MaxPeriod)
	}
	q, _ := bits.Div64(hi, lo, uint64(p.limit.Count))
	return int64(min(q, uint64(micros.Of(weir.MaxPeriod))))
}

// by returns the limit by which cost units are spent on the shared store. More
// than the burst that is left there pass by the whole burst: such a request must
// be able to pass.
func (p *plan) by(cost int64) *weir.Limit {
	if p.central == nil || cost > p.central.Burst {
		return p.limit
	}
	return p.central
}

// told returns a decision of the shared store on central as one on the limit
// itself.
func (p *plan) told(d weir.Decision) weir.Decision {
	if d.Limit != nil {
		d.Limit = p.limit.From(d.Guarantee().Source)
	}
	return d
}

// whole returns a decision that was made by the whole burst of a leased bucket,
// while others may hold what flowed in since.
func (p *plan) whole(d weir.Decision) weir.Decision {
	if d.Limit == p.limit {
		d.Limit = p.limit.From(weir.FromLooseLease)
	}
	return d
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
	switch l.Algorithm {
	case algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.LeakyQueue, algorithm.Throttle:
		s.Burst = max(l.Burst/nodes, 1)
		if nodes <= int64(weir.MaxPeriod/l.Period) {
			s.Period = l.Period * time.Duration(nodes)
		} else {
			s.Count = max(l.Count/nodes, 1)
		}
	default:
		s.Count, s.Burst = max(l.Count/nodes, 1), 0
	}
	if err := s.Compile(); err != nil {
		return nil, err
	}
	p.share.Store(&share{nodes, s})
	return s, nil
}

// plans finds the plan of a limit. Limits can be made on the fly, so that there is
// no end to them: when there are too many, all are forgotten.
type plans struct {
	all       sync.Map // *weir.Limit to *plan
	count     atomic.Int64
	link      *link
	otherwise params.ConsistencyMode
	nodes     *nodes
	joiner    joiner // nil if the shared store is none
	// second is the node's time in seconds, as of the last look in the background:
	// a decision need not read the clock to tell that a plan is in use.
	second atomic.Int64
}

// of returns the plan of l.
func (ps *plans) of(l *weir.Limit) (*plan, error) {
	if v, ok := ps.all.Load(l); ok {
		p := v.(*plan)
		if now := ps.second.Load(); p.used.Load() != now {
			p.used.Store(now)
		}
		return p, nil
	}
	p, err := newPlan(l, ps.otherwise, ps.nodes.name(), ps.nodes.plain.Load(), ps.joiner)
	if err != nil {
		return nil, err
	}
	p.used.Store(ps.second.Load())
	v, loaded := ps.all.LoadOrStore(l, p)
	if !loaded && ps.count.Add(1) > maxPlans {
		ps.all.Clear()
		ps.count.Store(0)
	}
	return v.(*plan), nil
}

// maxPlans is the most plans that are kept.
const maxPlans = 1 << 16

// planLife is how long a plan that nobody asks for is kept, in seconds. Limits
// come and go as rules are reloaded.
const planLife = 600

// sweep forgets the plans of limits that are no longer in use.
func (ps *plans) sweep() {
	before := ps.link.now()/1e6 - planLife
	ps.all.Range(func(l, v any) bool {
		if v.(*plan).used.Load() < before {
			ps.all.Delete(l)
			ps.count.Add(-1)
		}
		return true
	})
}
