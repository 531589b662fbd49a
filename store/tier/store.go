package tier

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/params"
	holdings "github.com/weirlimit/weir/store/internal/lot" // tier has a lot of its own
	"github.com/weirlimit/weir/store/region"
)

// Options configures a [Store].
type Options struct {
	// Local keeps what this node counts alone: limits of local consistency, and
	// its share of the others while the shared store is away. Required; a memory
	// store is made for it. It is its owner's to close, after the tier.
	Local weir.Store
	// Mode is how limits are counted that do not say. Zero means leased where the
	// algorithm allows it, else strict.
	Mode params.ConsistencyMode
	// Timeout is the longest that a decision waits for the shared store. A caller
	// whose context ends before gets the context's error, and no decision. Zero means
	// 20 milliseconds.
	Timeout time.Duration
	// Prompt says that the shared store ends each call by itself, within Timeout for
	// each of the servers that it asks one after the other. A call is then made by
	// whoever needs it, without a goroutine and timers of its own, unless its caller
	// may leave before. Zero means that this is not relied on.
	Prompt bool
	// MaxInFlight is the most calls of the shared store at a time. Zero means
	// 512.
	MaxInFlight int
	// MaxBytes bounds the memory for fetched units, remembered answers and
	// debts, at least MinBytes. Zero means 64 MiB.
	MaxBytes int64
	// RefusalLife is the longest that a refusal is remembered: how late a reset
	// or a refund on another node is seen at worst. Negative means that none is.
	// Zero means a second.
	RefusalLife time.Duration
	// ProbeEvery is how often a store that is away is tried. Zero means 250
	// milliseconds.
	ProbeEvery time.Duration
	// Nodes is how many nodes there are at least. Zero means as many as have
	// registered.
	Nodes int
	// NodeTTL is how long a node that has gone without a word is counted, at
	// least a second. Zero means ten seconds.
	NodeTTL time.Duration
	// Region is the name of this node's region where there are several, each with a
	// shared store of its own, and Peers are the others. Limits of eventual
	// consistency, and those that do not say, are then counted by all regions
	// together, see [region.Check]; strict and leased ones by each region alone. Zero
	// means that there are no regions.
	Region string
	Peers  []region.Peer
	// PeerTimeout is how long another region is waited for, when it is told what
	// this one has admitted: no decision waits for it. Zero means a second.
	PeerTimeout time.Duration
	// Now tells the node's monotonic time in microseconds, for tests and replays.
	// Zero means the process's own.
	Now func() int64
	// Logger is told when the shared store goes away and when it is back. Zero
	// means nobody is told.
	Logger *slog.Logger

	// meter tells how late this process is by itself.
	meter *lateness.Meter
}

// MinBytes is the least memory that a store works with.
const MinBytes = 1 << 20

func (o *Options) fill() error {
	if o.Local == nil {
		return errors.New("tier: no local store: set Options.Local to a memory store")
	}
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	set(&o.Timeout, 20*time.Millisecond)
	set(&o.RefusalLife, time.Second)
	set(&o.ProbeEvery, 250*time.Millisecond)
	set(&o.NodeTTL, 10*time.Second)
	set(&o.PeerTimeout, time.Second)
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 512
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Timeout < 0 || o.PeerTimeout < 0 || o.ProbeEvery < 0 || o.MaxInFlight < 0 || o.Nodes < 0:
		return fmt.Errorf("tier: timeout %s, probe interval %s, calls in flight %d and nodes %d must not be negative",
			o.Timeout, o.ProbeEvery, o.MaxInFlight, o.Nodes)
	case o.Mode > params.ConsistencyLocal:
		return fmt.Errorf("tier: consistency %s is not known", o.Mode)
	case o.MaxBytes < MinBytes:
		return fmt.Errorf("tier: %d bytes are too few: at least %d", o.MaxBytes, MinBytes)
	case o.NodeTTL < time.Second || o.NodeTTL%time.Microsecond != 0:
		return fmt.Errorf("tier: node ttl %s must be at least a second, in whole microseconds", o.NodeTTL)
	case o.Nodes > maxNodes:
		return fmt.Errorf("tier: %d nodes are too many: at most %d", o.Nodes, maxNodes)
	}
	return nil
}

// Store decides on a store that nodes share. Safe for concurrent use.
type Store struct {
	local    weir.Store
	link     *link
	refusals *holdings.Refusals
	leases   *leases
	slots    *slots
	debts    *debts
	nodes    *nodes
	plans    *plans
	region   *region.Store // nil without others
	seed     maphash.Seed
	log      *slog.Logger
	closed   atomic.Bool
	stop     chan struct{}
	done     sync.WaitGroup
	aways    sync.Pool // of *away
	mixes    sync.Pool // of *mix
	probing  time.Duration
	nodeTTL  time.Duration

	// clock is how far the shared store's time is ahead of the node's.
	clock atomic.Int64
	// behind is the same at least: a call is answered after it was carried out.
	// math.MinInt64: nothing was answered.
	behind atomic.Int64

	unsaid   unsaid
	overshot atomic.Int64

	degraded, spentHeld, fetched atomic.Uint64
	quiet, quietDebts            quiet
	outage                       outage
}

var _ weir.Store = (*Store)(nil)

// New returns a store over shared, which must end a call when its context ends.
// Close it before shared. That shared does not answer is no error: limits are
// decided by their policies until it does.
//
// An error of shared that has a method Partial() bool which returns true is about a
// part of it, such as a server of several: what is kept there is decided by policy,
// and the rest is not taken to be away.
func New(shared weir.Store, opt Options) (*Store, error) {
	if shared == nil {
		return nil, errors.New("tier: no shared store")
	}
	if err := opt.fill(); err != nil {
		return nil, err
	}
	var rs *region.Store
	if opt.Region != "" || len(opt.Peers) > 0 {
		var err error
		if rs, err = region.New(shared, region.Options{Name: opt.Region, Peers: opt.Peers, PeerTimeout: opt.PeerTimeout,
			MaxBytes: opt.MaxBytes / 8, ProbeEvery: opt.ProbeEvery, Now: opt.Now, Logger: opt.Logger}); err != nil {
			return nil, err
		}
		shared = rs
	}
	opt.meter = lateness.New()
	k := newLink(shared, &opt)
	n, err := newNodes(&opt, k)
	if err != nil {
		opt.meter.Close()
		if rs != nil {
			err = errors.Join(err, rs.Close())
		}
		return nil, fmt.Errorf("tier: %w", err)
	}
	s := &Store{
		region: rs, local: opt.Local, link: k, nodes: n, plans: &plans{link: k, otherwise: opt.Mode, nodes: n},
		refusals: holdings.NewRefusals(opt.MaxBytes/8, opt.RefusalLife.Microseconds()),
		leases:   newLeases(opt.MaxBytes / 2),
		slots:    newSlots(opt.MaxBytes / 8),
		debts:    &debts{all: map[uint64]*debt{}, maxBytes: opt.MaxBytes / 8},
		seed:     maphash.MakeSeed(), log: opt.Logger, stop: make(chan struct{}),
		probing: opt.ProbeEvery, nodeTTL: opt.NodeTTL,
	}
	s.plans.joiner, _ = shared.(joiner)
	s.clock.Store(time.Now().UnixMicro() - k.now())
	s.behind.Store(math.MinInt64)
	s.aways.New = func() any { return new(away) }
	s.mixes.New = func() any { return new(mix) }
	k.opened, k.closed, k.probe, k.resumed = s.wentAway, s.isBack, s.renew, n.missed
	// No decision waits yet: a store, or a node, that is busy for a moment just now is not
	// away.
	if err := s.renew(s.askLater); err != nil && !partial(err) {
		k.Trip(0, err)
	}
	s.done.Go(s.keep)
	s.done.Go(s.sweep)
	return s, nil
}

// Close implements weir.Store: it gives back what was fetched and not spent, and
// waits for calls under way. It closes neither the shared nor the local store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		s.done.Wait()
		return nil
	}
	close(s.stop)
	s.done.Wait()
	var errs []error
	// A key whose mark has changed is looked at before it is told.
	for range 3 {
		s.tellAll(math.MaxInt64)
		s.link.Wait()
	}
	s.leases.returns.resume()
	s.giveBackAll()
	s.slots.clear(&s.leases.returns)
	s.giveBackAll()
	for i := range s.leases.shards {
		s.leases.clear(i)
		s.giveBackAll()
	}
	if !s.link.IsOpen() {
		errs = append(errs, s.payDebts())
		errs = append(errs, s.nodes.leave(s.link))
	}
	s.link.Close()
	s.link.meter.Close()
	if s.region != nil {
		errs = append(errs, s.region.Close())
	}
	for i, err := range errs {
		// That the store went away is no fault of closing.
		if err != nil && !wrong(err) {
			s.log.Warn("shutdown: shared store unreachable, leases not returned", "err", err)
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// tag returns what stands for key under l. It is never zero.
func (s *Store) tag(key string, l *weir.Limit) uint64 {
	return max(maphash.String(s.seed, key)^l.ID(), 1)
}

// heard notes the shared store's time now, of a call sent at the node's time
// sent.
func (s *Store) heard(now, sent int64) {
	if now > 0 {
		s.clock.Store(now - sent)
		s.behind.Store(now - s.link.now())
	}
}

// wall returns the shared store's time, as far as the node can tell.
func (s *Store) wall() int64 { return s.link.now() + s.clock.Load() }

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if uint64(cost) > weir.MaxCost {
		return weir.Decision{}, weir.ErrCost
	}
	p, err := s.ready(l)
	if err != nil {
		return weir.Decision{}, err
	}
	switch {
	case l.Traits()&weir.Leases != 0 && cost > 0:
		return weir.Decision{}, weir.ErrNoLease
	case p.mode == params.ConsistencyLocal:
		d, err := s.local.TakeOne(ctx, key, l, cost)
		return relabel(d, l), err
	}
	if cost == 0 {
		o := weir.Op{Key: key, Limit: l}
		if err := s.takeSharedOne(ctx, &o); err != nil {
			return weir.Decision{}, err
		}
		return o.Decision, nil
	}
	tag := s.tag(key, l)
	var d weir.Decision
	switch p.mode {
	case params.ConsistencyLeased:
		if d, ok := s.warm(tag, key, l, cost); ok {
			return d, nil
		}
		d, _, err = s.spendLeased(ctx, p, tag, key, cost)
	case params.ConsistencyEventual:
		if d, ok := s.warm(tag, key, l, cost); ok {
			return d, nil
		}
		d, _, err = s.spendCounted(ctx, p, tag, key, cost)
		d = p.counted(d)
	default:
		d, _, err = s.spendStrict(ctx, p, l, tag, key, cost)
	}
	if err == nil {
		return d, nil
	}
	o := weir.Op{Key: key, Limit: l, Cost: cost}
	if err = s.oneAway(ctx, &o, err); err != nil {
		return weir.Decision{}, err
	}
	return o.Decision, nil
}

// warm decides a spend by what the node holds, if it can be. It does not
// allocate.
func (s *Store) warm(tag uint64, key string, l *weir.Limit, cost int64) (weir.Decision, bool) {
	g := s.leases.shard(tag)
	g.mu.Lock()
	e := g.get(tag, key, l)
	if e == nil {
		g.mu.Unlock()
		return weir.Decision{}, false
	}
	d, ok := s.spendHeld(g, e, cost, s.link.now())
	g.mu.Unlock()
	return d, ok
}

// ready returns the plan of l, or why nothing can be decided.
func (s *Store) ready(l *weir.Limit) (*plan, error) {
	if s.closed.Load() {
		return nil, weir.ErrClosed
	}
	if l.Cells == 0 {
		return nil, fmt.Errorf("tier: limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	}
	return s.plans.of(l)
}

// relabel says that d was decided on this node alone.
func relabel(d weir.Decision, l *weir.Limit) weir.Decision {
	if d.Limit == l && l.Traits()&weir.Sketches == 0 {
		d.Limit = l.From(weir.FromLocal)
	}
	return d
}

// Take implements weir.Store.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	if err := s.check(ops); err != nil {
		return err
	}
	var at [anywhere + 1]int
	for i := range ops {
		at[s.place(&ops[i])]++
	}
	switch {
	case at[onLease] > 0 && len(ops) == 1:
		_, err := s.takeLease(ctx, &ops[0])
		return err
	case at[onLease] > 0:
		return s.takeMixed(ctx, ops)
	case at[onShared] == 0:
		return s.takeLocal(ctx, ops)
	case at[onNode] == 0:
		return s.takeShared(ctx, ops)
	}
	return s.takeMixed(ctx, ops)
}

// check refuses what no store can decide, before any is asked.
func (s *Store) check(ops []weir.Op) error {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		if _, err := s.ready(o.Limit); err != nil {
			return err
		}
		t := o.Limit.Traits()
		switch {
		case uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost:
			return weir.ErrCost
		case t&weir.Leases != 0 && o.ID == 0 && o.Verb != weir.Peek:
			return weir.ErrNoLease
		case t&weir.Sketches != 0 && o.Verb == weir.Refund:
			return weir.ErrRefund
		}
	}
	return nil
}

// takeLocal decides ops on the node alone.
func (s *Store) takeLocal(ctx context.Context, ops []weir.Op) error {
	if err := s.local.Take(ctx, ops); err != nil {
		return err
	}
	for i := range ops {
		if ops[i].Role != weir.Deny {
			ops[i].Decision = relabel(ops[i].Decision, ops[i].Limit)
		}
	}
	return nil
}
