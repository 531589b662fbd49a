package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/lab/simulate/virtual"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// epoch is when the first requests may come: 1 January 2026, in microseconds, where the
// windows of minutes, hours and days begin.
const epoch = int64(1_767_225_600_000_000)

// heldBytes is what a node may hold of fetched units, as `weir serve` has it by itself.
const heldBytes = 64 << 20

// A fleet is the nodes of one play.
type fleet struct {
	*virtual.Time
	*outcome
	ctx     context.Context
	options *Options
	asks    *questions
	traffic *traffic
	server  *server
	nodes   []*node
	counts  Mode  // what is counted while it plays
	err     error // the first
}

// A node is one of a fleet.
type node struct {
	*virtual.Node
	local   *memory.Store
	store   *shared.Store
	limiter *weir.Limiter
}

// A server is the shared store: the embedded store, at a distance.
type server struct {
	*memory.Store
	*fleet
	there, back int64 // microseconds
	isOver      bool  // no call is counted any more
}

// Take implements weir.Store.
func (s *server) Take(ctx context.Context, ops []weir.Op) error {
	if s.there > 0 {
		s.Sleep(s.there)
	}
	switch {
	case s.isOver:
	case len(ops) > 0 && ops[0].Limit != nil && ops[0].Limit.Scope == "\x1fnodes":
		s.counts.Renewals++
	default:
		if s.counts.Calls++; len(ops) > 0 && ops[0].Verb == weir.Refund {
			s.counts.Returns++
		}
	}
	err := s.Store.Take(ctx, ops)
	if s.back > 0 {
		s.Sleep(s.back)
	}
	return err
}

// A line is the server as a node sees it. store/shared asks it for the node's time, and so on.
type line struct {
	*server
	*virtual.Node
	*rand.Rand
	opened int64
}

// Ticks returns the node's own time.
func (l *line) Ticks() int64 { return 1 + l.Node.Now() - l.opened }

// Wall returns the time of the node's wall clock.
func (l *line) Wall() int64 { return l.Node.Now() }

// playFleet plays a slice on all nodes.
func playFleet(ctx context.Context, q *questions, s *slice, o *Options) (f *fleet, err error) {
	f = &fleet{outcome: newOutcome(len(s.upTo)), ctx: ctx, options: o, asks: q, traffic: newTraffic(s, o.Nodes, o.For, o.Seed)}
	f.Time = virtual.New(epoch - f.lead().Microseconds())
	latency := o.StoreLatency.Microseconds()
	f.server = &server{Store: memory.New(memory.Options{MaxBytes: playBytes, Now: f.Now}), fleet: f, there: there(o), back: latency - there(o)}
	defer func() { err = errors.Join(err, f.server.Store.Close()) }()
	// A node of the slice holds a part of the keys that one of the fleet does, and has as
	// large a part of the memory.
	bytes := max(heldBytes/s.every, shared.MinBytes)
	for i := range o.Nodes {
		n := &node{Node: f.Node()}
		n.local = memory.New(memory.Options{MaxBytes: max(playBytes/o.Nodes, 16<<20), Now: f.Now})
		defer func() { err = errors.Join(err, n.local.Close()) }()
		f.nodes = append(f.nodes, n)
		n.Start(f.Now()+i*1000, func() { f.open(n, bytes, o.Seed+uint64(i)<<32) })
	}
	f.Start(epoch, f.arrive)
	f.Start(epoch+o.For.Microseconds()+latency, func() { f.server.isOver = true })
	for at := int64(1); at <= 20; at++ {
		f.Start(epoch+at*o.For.Microseconds()/20, f.look)
	}
	f.Start(epoch+o.For.Microseconds()+time.Second.Microseconds(), f.close)
	f.Run()
	err = errors.Join(f.err, ctx.Err(), fits(f.server.Store.Stats()))
	for _, n := range f.nodes {
		err = errors.Join(err, fits(n.local.Stats()))
	}
	return f, err
}

// fail notes an error, by which the play ends.
func (f *fleet) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// open starts a node.
func (f *fleet) open(n *node, bytes int64, seed uint64) {
	line := &line{server: f.server, Node: n.Node, Rand: rand.New(rand.NewPCG(seed, 6)), opened: n.Now()}
	s, err := shared.New(line, shared.Options{Local: n.local, MaxBytes: bytes})
	if err == nil {
		n.store = s
		n.limiter, err = weir.New(s, f.asks.set, weir.Options{})
	}
	if err != nil {
		f.fail(err)
	}
}

// arrive has the next request arrive, after which it has the one that follows arrive.
func (f *fleet) arrive() {
	a, ok := f.traffic.next()
	if !ok || f.err != nil || checkEvery(f.ctx, f.requests) != nil {
		return
	}
	n := f.nodes[a.node]
	n.Start(epoch+a.at, func() {
		f.arrive()
		f.decide(n, a)
	})
}

// decide decides a request.
func (f *fleet) decide(n *node, a arrival) {
	r := n.limiter.Acquire()
	f.asks.fill(r, a.user, a.choice)
	before := f.Waits()
	d, err := n.limiter.Decide(context.Background(), r)
	if err != nil {
		f.fail(err)
		return
	}
	if f.Waits() == before {
		f.counts.OnNode++
	}
	f.add(a.user, r, d)
	n.limiter.Recycle(r)
}

// look notes what the nodes hold.
func (f *fleet) look() {
	for _, n := range f.nodes {
		if n.store != nil {
			st := n.store.Stats()
			f.counts.HeldKeys, f.counts.HeldBytes = max(f.counts.HeldKeys, int64(st.LeaseKeys)), max(f.counts.HeldBytes, st.LeaseBytes)
		}
	}
}

// lead returns for how long the nodes run before the first request, so that they know each
// other for long enough, and hold nothing of when they did not.
func (f *fleet) lead() time.Duration {
	lead := 20 * time.Second
	for _, l := range f.asks.limits {
		lead = max(lead, 20*time.Second+l.LeaseTTL())
	}
	return lead
}

// close closes the nodes.
func (f *fleet) close() {
	for _, n := range f.nodes {
		if n.store == nil {
			continue
		}
		n.Go(func() {
			if err := n.store.Close(); err != nil {
				f.fail(err)
			}
		})
	}
}
