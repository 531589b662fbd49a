package tier

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A Peer is the store of another region.
type Peer struct {
	// Name is the region's, the same in all regions.
	Name string
	// Store must end a call when its context ends. It is its owner's to close,
	// after the tier.
	Store weir.Store
}

const (
	// MaxRegions is how many regions there can be.
	MaxRegions = 64
	// regionCount is the count of a counter that only grows: more units than are
	// spent of a key in an epoch.
	regionCount = 1 << 50
	// bucketEpoch is the shortest epoch in which the units of a bucket are counted.
	bucketEpoch = time.Hour
)

// CheckRegions reports why l cannot be counted in so many regions together. Nil
// means that it can, or that each node counts it alone.
func CheckRegions(l *weir.Limit, regions int) error {
	t := l.Traits()
	cure := "use consistency: eventual, or local, by which each node counts alone"
	switch m := l.Consistency.Mode; {
	case m == params.ConsistencyLocal, t&weir.Sketches != 0:
		return nil
	case m == params.ConsistencyStrict || m == params.ConsistencyLeased:
		return fmt.Errorf("consistency %s cannot hold across regions, which tell each other what they admitted after the fact: %s", m, cure)
	case t&weir.Lends == 0:
		return fmt.Errorf("%s cannot be counted in several regions together: use consistency: local, or sliding_window or token_bucket", l.Algorithm.Name())
	case !alone(&l.Mode):
		return errors.New("soft, elastic and penalizing limits, bans and what is kept for priorities are decided by one store, and there is one in each region: use consistency: local")
	case l.Anchor == params.AnchorFirst:
		return errors.New("windows that begin with the first request begin differently in each region: use windows from the epoch")
	}
	if regionCap(l, regions) < 1 {
		least := regions - 1
		if l.Algorithm != algorithm.FixedWindow {
			least *= 2
		}
		return fmt.Errorf("max_overshoot of %d units gives each of %d regions less than one: make it at least %d", min(l.Overshoot(), l.Burst), regions, least)
	}
	return nil
}

// CheckRegionsCost reports why requests of a cost can never pass l where it is counted
// in so many regions together. Nil means that they can. It says nothing of a limit that
// cannot be counted so, see [CheckRegions].
func CheckRegionsCost(l *weir.Limit, regions int, cost int64) error {
	most := regionCap(l, regions)
	if l.Consistency.Mode == params.ConsistencyLocal || CheckRegions(l, regions) != nil || l.Traits()&weir.Sketches != 0 || cost <= most {
		return nil
	}
	least := cost * int64(max(regions-1, 1))
	if l.Algorithm != algorithm.FixedWindow {
		least *= 2
	}
	cure := fmt.Sprintf("raise max_overshoot to %d, or lower the cost", least)
	if least > l.Burst {
		cure = "lower the cost, or use consistency: local"
	}
	return fmt.Errorf("a cost of %d never passes in %d regions: each admits at most %d units before the others know of it: %s", cost, regions, most, cure)
}

// regionCap returns how many units of l a region may have admitted that another
// does not know of. Where one epoch meets the next both may be in use, unless the
// limit's own windows are the epochs.
func regionCap(l *weir.Limit, regions int) int64 {
	over := min(l.Overshoot(), l.Burst)
	if l.Algorithm != algorithm.FixedWindow {
		over /= 2
	}
	return over / int64(max(regions-1, 1))
}

// regional is what the plan of a limit adds that regions count together.
//
// Each region counts what it admits of a key in a counter that only grows, for each
// epoch one, and tells the others how far it has come: they raise their copy to it,
// and charge the difference to their own state, in one step. A region admits only
// while its counter is at most cap above what every other has. So when the last unit
// is admitted anywhere, that region knows of all but cap units of each of the others.
//
// Units that were fetched and given back are taken off the region's own counter,
// and not off the copies of others: these may be too high for a while, never too
// low.
type regional struct {
	region string
	limit  *weir.Limit
	cap    int64
	// length is how long an epoch is, in microseconds; 0: as long as the windows of
	// the limit.
	length   int64
	interval int64 // between two pushes, microseconds
	// turn is had by one node of the region at a time; soon is a shorter one, for
	// when others must hear at once.
	turn, soon *weir.Limit
	// most is the limit with all that it may be overshot by, on the same counters;
	// nil if such a limit would have counters of its own.
	most *weir.Limit

	mu     sync.Mutex
	epochs map[int64]*epochCounters
	now    atomic.Pointer[epochCounters]
}

// epochCounters are the counters of one epoch.
type epochCounters struct {
	// since is when the epoch was first seen, the earliest that is known, and end is
	// when it ends, by the store's clock.
	since atomic.Int64
	end   int64
	// own is what the region has admitted, on its own store; told what every other
	// region has heard of it, and sent what they may hear; copy what one has heard, on
	// that one's store.
	own, told, sent, copy *weir.Limit
	// window: the units count in this window of the limit and in no other.
	window bool
}

func newRegional(l *weir.Limit, region string, regions int) (*regional, error) {
	r := &regional{region: region, limit: l, cap: regionCap(l, regions), epochs: map[int64]*epochCounters{}}
	r.interval = micros.Of(l.Consistency.SyncInterval)
	if r.interval == 0 {
		r.interval = 100_000
	}
	switch l.Algorithm {
	case algorithm.FixedWindow:
	case algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows:
		r.length = micros.Of(l.Period)
	default:
		// What a bucket has admitted counts until it has flowed back.
		r.length = micros.Of(bucketEpoch)
		if hi, lo := bits.Mul64(uint64(l.Burst), uint64(micros.Of(l.Period))); hi < uint64(l.Count) {
			q, _ := bits.Div64(hi, lo, uint64(l.Count))
			r.length = max(r.length, int64(min(q, uint64(micros.Of(weir.MaxPeriod/2)))))
		}
	}
	turn := func(every int64) *weir.Limit {
		return &weir.Limit{
			Name: l.Name + " turn", Scope: fmt.Sprintf("%s\x1fturn %d", l.Scope, every), Algorithm: algorithm.FixedWindow, Count: 1,
			Period: micros.Duration(every), Params: params.Params{Anchor: params.AnchorFirst},
		}
	}
	r.turn, r.soon = turn(r.interval), turn(max(r.interval/8, 1000))
	r.most = more(l)
	return r, errors.Join(r.turn.Compile(), r.soon.Compile())
}

// more returns l with all that it may be overshot by, on the same counters, or nil.
func more(l *weir.Limit) *weir.Limit {
	most := &weir.Limit{
		Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Burst: l.Burst + l.Overshoot(), Params: l.Params,
	}
	if l.Algorithm != algorithm.TokenBucket && l.Algorithm != algorithm.LeakyBucket {
		most.Count, most.Burst = l.Count+l.Overshoot(), 0
	}
	if err := most.Compile(); err != nil || most.ID() != l.ID() {
		return nil
	}
	return most
}

// retry returns when a cost can pass that was refused since other regions had to be
// told of others first: one above what they need not know never does.
func (r *regional) retry(cost int64) time.Duration {
	if cost > r.cap {
		return weir.Never
	}
	return micros.Duration(r.interval)
}

// epoch returns the counters of the epoch at now, by the store's clock.
func (r *regional) epoch(now int64) (*epochCounters, error) {
	if c := r.now.Load(); c != nil && now >= c.since.Load() && now < c.end {
		return c, nil
	}
	end := int64(0)
	if r.length > 0 {
		end = now - now%r.length + r.length
	} else {
		// What a first spend would get.
		d := r.limit.Algorithm.Step(make([]int64, r.limit.Cells), r.limit, weir.Ask{Now: now, Cost: 1})
		end = now + micros.Of(d.ResetAfter)
	}
	c, err := r.ending(end, now)
	if err == nil {
		r.now.Store(c)
	}
	return c, err
}

// ending returns the counters of the epoch that ends at end.
func (r *regional) ending(end, now int64) (*epochCounters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.epochs[end]; c != nil {
		c.since.Store(min(c.since.Load(), now))
		return c, nil
	}
	life := min(2*max(r.length, micros.Of(r.limit.Period)), micros.Of(weir.MaxPeriod))
	counter := func(what string) *weir.Limit {
		return &weir.Limit{
			Name: r.limit.Name + " regions", Scope: fmt.Sprintf("%s\x1f%s %d", r.limit.Scope, what, end), Algorithm: algorithm.FixedWindow,
			Count: regionCount, Period: micros.Duration(life), Params: params.Params{Anchor: params.AnchorFirst},
		}
	}
	c := &epochCounters{end: end, window: r.length == 0, own: counter("own"), told: counter("told"), sent: counter("sent"), copy: counter("of " + r.region)}
	c.since.Store(now)
	if err := errors.Join(c.own.Compile(), c.told.Compile(), c.sent.Compile(), c.copy.Compile()); err != nil {
		return nil, err
	}
	for old := range r.epochs {
		if old < end-2*life {
			delete(r.epochs, old)
		}
	}
	r.epochs[end] = c
	return c, nil
}

// spend is what the region's store is asked for units of key, of which the region
// has admitted more than told are known to all others; p asks by its own limit.
func (r *regional) spend(c *epochCounters, by *weir.Limit, key string, units, told int64) []weir.Op {
	return []weir.Op{
		{Key: key, Limit: by, Cost: units},
		// Passes while the counter stays at most cap above what was told.
		{Key: key, Limit: c.own, Cost: units, Headroom: max(regionCount-told-r.cap, 0)},
		{Key: key, Limit: c.told, Cost: 1, Role: weir.Always, Verb: weir.Peek},
	}
}

// An outbound is what a region has admitted of a key in an epoch, and has perhaps
// not told the others yet. Counts are as last heard of its store.
type outbound struct {
	tag       uint64
	key       string
	plan      *plan
	c         *epochCounters
	own, told int64
	// sent is how much is on its way, or was.
	sent int64
	// since is when there was first something to tell, in the node's time.
	since int64
	used  int64
	// at is when it is told next; due: it is in the queue.
	at          int64
	due, urgent bool
	pushing     int
	// calm is until when it is not told at once: it could not be.
	calm int64
}

// maxPushes is how many pushes of a key are on their way at a time.
const maxPushes = 4

// untold returns the units that some other region may not know of.
func (b *outbound) untold() int64 { return max(b.own-b.told, 0) }

// outboundBytes is what an outbound takes beside its key.
const outboundBytes = 320

// regions is how the node's region and the others tell each other what they admit.
//
// Safe for concurrent use.
type regions struct {
	name  string
	peers []*peer

	mu       sync.Mutex
	all      map[outboundKey]*outbound
	queue    []*outbound // to be told, in the order in which they came
	bytes    int64
	maxBytes int64
	// pushes bounds how many are under way; wake is when one is urgent.
	pushes, wake chan struct{}

	capped atomic.Uint64
}

type outboundKey struct {
	tag uint64
	end int64
}

// A peer is another region as this node sees it.
type peer struct {
	name string
	link *link
	// clock is by how much the peer's time is ahead of the node's at least.
	clock atomic.Int64
	known atomic.Bool
	// units is what it was told of, unanswered the calls that it did not answer.
	units, unanswered atomic.Uint64
	heard             atomic.Int64 // when it last answered, in the node's time
	outage            *faults.Outage
}

func newRegions(opt *Options, told func() int64) (*regions, error) {
	if len(opt.Peers) == 0 {
		if opt.Region != "" {
			return nil, fmt.Errorf("tier: region %q without other regions: name their stores in Peers", opt.Region)
		}
		return nil, nil
	}
	if opt.Region == "" {
		return nil, errors.New("tier: other regions are named, and this one is not: set Region")
	}
	if len(opt.Peers) >= MaxRegions {
		return nil, fmt.Errorf("tier: %d regions are too many: at most %d", len(opt.Peers)+1, MaxRegions)
	}
	rs := &regions{name: opt.Region, all: map[outboundKey]*outbound{}, maxBytes: opt.MaxBytes / 8, pushes: make(chan struct{}, 64), wake: make(chan struct{}, 1)}
	seen := map[string]bool{opt.Region: true}
	for _, p := range opt.Peers {
		switch {
		case p.Name == "" || p.Store == nil:
			return nil, errors.New("tier: a region without a name or a store")
		case seen[p.Name]:
			return nil, fmt.Errorf("tier: region %q is named twice", p.Name)
		}
		seen[p.Name] = true
		to := &peer{name: p.Name, link: newLink(p.Store, &Options{Timeout: opt.PeerTimeout, MaxInFlight: opt.MaxInFlight, ProbeEvery: opt.ProbeEvery, Now: told}),
			outage: faults.NewOutage(opt.Logger, "region unavailable; admission is bounded by max_overshoot", "region recovered", "region", p.Name)}
		rs.peers = append(rs.peers, to)
	}
	return rs, nil
}

// count returns how many regions there are.
func (rs *regions) count() int {
	if rs == nil {
		return 1
	}
	return len(rs.peers) + 1
}

// get returns what is known of a key in an epoch, nil where there is no room.
// Requires: mu.
func (rs *regions) get(p *plan, c *epochCounters, tag uint64, key string, now int64) *outbound {
	k := outboundKey{tag, c.end}
	b := rs.all[k]
	if b == nil {
		size := outboundBytes + int64(len(key))
		if rs.bytes+size > rs.maxBytes {
			return nil
		}
		rs.bytes += size
		b = &outbound{tag: tag, key: strings.Clone(key), c: c}
		rs.all[k] = b
	}
	b.plan, b.used = p, now
	return b
}

// known returns what is known of a key: what the region has admitted, and how much
// of that every other has been told of.
func (rs *regions) known(c *epochCounters, tag uint64) (own, told int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if b := rs.all[outboundKey{tag, c.end}]; b != nil {
		return b.own, b.told
	}
	return 0, 0
}

// heard takes over what the region's store said of a key, and sees to it that the
// others are told: at once when a quarter of what they need not know is not on its way. Of a key
// without room nobody is told until there is some; the region's store counts it, and
// admits no more than they need not know.
func (rs *regions) heard(p *plan, c *epochCounters, tag uint64, key string, own, told, now int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	b := rs.get(p, c, tag, key, now)
	if b == nil {
		return
	}
	b.own, b.told = own, max(b.told, told)
	rs.tell(b, (own-max(b.told, b.sent))*4 >= p.regional.cap && now >= b.calm, now+p.regional.interval)
}

// tell puts a key on the list of those that others are told of at the given time, or
// at once. Requires: mu.
func (rs *regions) tell(b *outbound, urgent bool, at int64) {
	if b.untold() == 0 {
		return
	}
	if b.since == 0 {
		b.since = at - b.plan.regional.interval
	}
	b.urgent = b.urgent || urgent
	if b.urgent {
		select {
		case rs.wake <- struct{}{}:
		default:
		}
	}
	if !b.due && (b.pushing == 0 || b.urgent && b.pushing < maxPushes) {
		b.due, b.at = true, at
		rs.queue = append(rs.queue, b)
	}
}

// A push tells others of a key: urgent when they must hear at once, last when there
// will be no other.
type push struct {
	*outbound
	urgent, last bool
}

// take takes out what is to be told by now.
func (rs *regions) take(now int64, all bool) (out []push) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rest := rs.queue[:0]
	for _, b := range rs.queue {
		if !all && !b.urgent && now < b.at {
			rest = append(rest, b)
			continue
		}
		out = append(out, push{b, b.urgent && !all, all})
		b.due, b.urgent = false, false
		b.pushing++
	}
	clear(rs.queue[len(rest):])
	rs.queue = rest
	return out
}

// done notes that a push has ended. One that failed is not repeated before its
// interval is over.
func (rs *regions) done(b *outbound, ok bool, now int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	b.pushing--
	if !ok {
		b.sent, b.urgent, b.calm = b.told, false, now+b.plan.regional.interval
	}
	if b.untold() == 0 {
		b.since, b.urgent = 0, false
		return
	}
	rs.tell(b, false, now+b.plan.regional.interval)
}

// lag returns how long the others have not been told of something at worst, in
// microseconds.
func (rs *regions) lag(now int64) (lag int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, b := range rs.all {
		if b.since > 0 {
			lag = max(lag, now-b.since)
		}
	}
	return lag
}

// sweep forgets what all others were told of, and what no longer counts.
func (rs *regions) sweep(now, wall int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for k, b := range rs.all {
		if b.due || b.pushing > 0 {
			continue
		}
		if b.untold() == 0 && now-b.used > 10_000_000 || wall > k.end+max(b.plan.regional.length, 1_000_000) {
			delete(rs.all, k)
			rs.bytes -= outboundBytes + int64(len(b.key))
		}
	}
}
