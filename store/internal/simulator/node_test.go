package simulator

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/permit"
	"github.com/weirlimit/weir/store/internal/transport"
)

// sweepEvery is how often a node gives back what is idle, in microseconds.
const sweepEvery = 500_000

// A node is one that shares the store, from its start to its end.
type node struct {
	*fleet
	*machine
	index    int64
	clock    *clock.Clock
	returns  *lot.Returns
	table    *lot.Table
	queue    *transport.Queue
	leased   *leased.Env
	permit   *permit.Env
	eventual *eventual.Env
	deciders map[*weir.Limit]decider
	born     int64
	drift    int64 // ppm
	slept    int64 // its clock stood still for so long
	wall     int64 // its wall clock is so far ahead
	budget   int64
	cutOff   int64 // until when it does not reach the server
	view     int64 // how many nodes there are, as it takes it
	excused  int64 // until when its breaker may open, as it was late itself
}

// A decider decides a limit. asked is what the store is asked by; with none the store
// decides all.
type decider struct {
	lot.Decider
	asked func(cost int64) *weir.Limit
}

// newNode starts a node, which has reached the server once.
func (f *fleet) newNode(index int) *node {
	n := &node{fleet: f, machine: &machine{tasks: map[*task]struct{}{}}, index: int64(index), born: f.now, view: int64(len(f.nodes)), budget: 20_000, deciders: map[*weir.Limit]decider{}}
	n.drift = f.Int64N(1001) - 500
	n.clock = clock.New(n.ticks, func() clock.Store { return clock.Store(epoch + f.now + n.wall) })
	n.clock.Observe(0, clock.Store(f.server.time()), n.clock.Now())
	n.returns = lot.NewReturns(1<<20, func() {})
	n.table = lot.NewTable(f.tableBytes, n.returns)
	n.table.Hash = tagOf
	refusals := lot.NewRefusals(1<<16, 1_000_000)
	env := &transport.Env{Now: n.clock.Now, Go: func(g func()) { f.start(n.machine, 0, g) }, Park: f.park}
	n.queue = transport.New(&driver{f.server, n}, env, transport.Options{
		Budget: time.Duration(n.budget) * time.Microsecond, Timeout: 750 * time.Millisecond, Workers: 8, Batch: 1, Waiting: 1000, PerKey: 100,
		ProbeEvery: 250 * time.Millisecond, Seed: f.Uint64(), Opened: n.opened, Closed: func(int) { f.event("closed", n.index) },
	})
	begin := func(g func()) bool { return n.queue.Launch(g) == nil }
	fetch := func(t *lot.Flight, ops []weir.Op) (clock.Node, error) {
		sent, err := n.queue.Fetch(context.Background(), t.Flight, ops)
		return sent, n.observe(ops, sent, err)
	}
	nodes := func() int64 { return n.view }
	n.leased = &leased.Env{Clock: n.clock, Table: n.table, Refusals: refusals, Nodes: nodes, IsSteady: func(int64) bool { return false }, IsRegistered: func() bool { return true }, Go: begin, Fetch: fetch}
	n.permit = &permit.Env{Clock: n.clock, Table: n.table, Refusals: refusals, Returns: n.returns, Nodes: nodes, Go: begin, Fetch: fetch, Rand: f.Uint64}
	n.eventual = &eventual.Env{Clock: n.clock, Table: n.table, Returns: n.returns, Refusals: refusals, Nodes: nodes, Go: begin, Send: fetch}
	f.start(n.machine, f.now+f.Int64N(sweepEvery), n.maintain)
	for range f.clients {
		c := &client{node: n, at: f.asked[f.IntN(len(f.asked))]}
		f.start(n.machine, f.now+f.Int64N(1_000_000), c.run)
	}
	return n
}

// tagOf is a hash of a limit's name, as each has one key.
func tagOf(_ string, l *weir.Limit) uint64 {
	h := uint64(1469598103934665603)
	for i := range len(l.Name) {
		h = (h ^ uint64(l.Name[i])) * 1099511628211
	}
	return h | 1
}

func (n *node) ticks() clock.Node {
	t := n.now - n.born - n.slept
	return clock.Node(1 + t + t*n.drift/1_000_000)
}

// opened notes that the breaker has opened: only by what the server did (I5).
func (n *node) opened(_ int, err error) {
	n.event("opened", n.index)
	if n.now > n.server.faulty+3_000_000 && n.now > n.excused {
		n.fail("the breaker of node %d opened, though the server has answered in time: %v", n.index, err)
	}
}

func (n *node) observe(ops []weir.Op, sent clock.Node, err error) error {
	if err == nil {
		n.clock.Observe(0, clock.Store(ops[0].Now), sent)
	}
	return err
}

// of returns the decider of a limit.
func (n *node) of(l *weir.Limit) decider {
	if d, ok := n.deciders[l]; ok {
		return d
	}
	var d decider
	switch {
	case l.Consistency.Mode == params.ConsistencyStrict:
	case l.Consistency.Mode == params.ConsistencyEventual:
		if terms, err := eventual.NewTerms(l, n.Uint64); err != nil || terms == nil {
			n.fail("no terms of %s: %v", l.Name, err)
		} else {
			d = decider{eventual.Decider{Env: n.eventual, Terms: terms}, func(int64) *weir.Limit { return l }}
		}
	case l.Traits()&weir.Leases != 0:
		if terms, err := permit.NewTerms(l); err != nil || terms == nil {
			n.fail("no terms of %s: %v", l.Name, err)
		} else {
			d = decider{permit.Decider{Env: n.permit, Terms: terms}, func(int64) *weir.Limit { return l }}
		}
	default:
		if terms, err := leased.NewTerms(l, true, n.Uint64); err != nil || terms == nil {
			n.fail("no terms of %s: %v", l.Name, err)
		} else {
			own := leased.Decider{Env: n.leased, Terms: terms}
			d = decider{own, own.AskBy}
		}
	}
	n.deciders[l] = d
	return d
}

// slack returns what the node may still overshoot a limit by.
func (n *node) slack(l *weir.Limit) int64 {
	_, g, e := n.table.Find(l.Name, l)
	defer g.Unlock()
	now := n.ticks() + clock.Node(n.clock.Lost()) // the node itself does not look at its clock
	if n.stands || e == nil || len(e.Lots()) == 0 || now >= e.Lots()[0].Expiry {
		return 0
	}
	return e.Lots()[0].Fetched
}

// maintain gives back what is idle, and pushes what is due.
func (n *node) maintain() {
	for {
		n.table.Sweep(n.clock.Now())
		n.eventual.PushDue(n.clock.Now())
		n.flush()
		n.returns.Resume()
		n.sleep(sweepEvery - 1000 + n.Int64N(2000))
	}
}

// flush sends what waits to be returned.
func (n *node) flush() {
	for {
		some := n.returns.Take(n.clock.Latest(n.clock.Now()))
		if some == nil {
			return
		}
		for i := range some {
			ops := []weir.Op{some[i].Op()}
			sent, err := n.queue.Later(ops)
			end := lot.Accepted
			switch {
			case n.observe(ops, sent, err) == nil:
			case transport.MayRun(err):
				end = lot.Unknown
			default:
				end = lot.Unsent
			}
			n.event("return", n.index, some[i].Free, int64(end))
			n.returns.Finish(some[i:i+1], n.clock.Now(), end)
		}
	}
}
