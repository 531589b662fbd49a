package shared

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/region"
)

// budget is that of a decision, in microseconds.
const budget = 20_000

// A node is one that shares the store, from its start to its end.
type node struct {
	*fleet
	*machine
	index   int64
	store   *Store
	region  *region.Store // nil: there is one region
	clock   *clock.Clock
	shares  []*truth // what it admits without the server, of each limit
	reports reports
	sureness
	born    int64
	drift   int64 // ppm
	slept   int64 // its clock stood still for so long
	wall    int64 // its wall clock is so far ahead
	cutOff  int64 // until when it does not reach a server, of all if cutFrom is less than 0
	cutFrom int
	lost    int64 // by its clock, when it was looked at last
	excused int64 // until when its breaker may open, as it was late itself
}

// boot starts a node.
func (f *fleet) boot(index int) *node {
	n := &node{fleet: f, machine: &machine{}, index: int64(index), born: f.now}
	n.drift = f.Int64N(1001) - 500
	n.clock = clock.New(n.ticks, n.wallTime)
	for _, l := range f.shareLimits {
		n.shares = append(n.shares, newTruth(f.world, l))
	}
	f.start(n.machine, 0, n.run)
	return n
}

// run opens the store, and lets clients come.
func (n *node) run() {
	opt := &Options{
		Local: newRows(n.localTime), Timeout: budget * time.Microsecond, MaxInFlight: 8, MaxBytes: MinBytes,
		Nodes: n.leastNodes, NodeTTL: 20 * time.Second, ProbeEvery: time.Second,
	}
	if n.isQuick {
		opt.ProbeEvery, opt.NodeTTL = 250*time.Millisecond, 5*time.Second
	}
	if err := opt.fillDefaults(); err != nil {
		n.Fatal(err)
	}
	env := &transport.Env{Now: n.clock.Now, Go: func(g func()) { n.start(n.machine, 0, g) }, Park: n.park, Rand: n.Uint64}
	s, err := newStore(n.sharedStore(), opt, n.clock, nil, env)
	if err != nil {
		n.Fatal(err)
	}
	s.table.Hash = tagOf
	n.store, n.stores = s, append(n.stores, s)
	n.watchDraws()
	for range clientsOf {
		c := &client{node: n, at: n.asked[n.IntN(len(n.asked))]}
		c.steps = c.step
		n.start(n.machine, n.now+n.Int64N(1_000_000), c.steps)
	}
}

// park is transport.Env's. A loop that looks for what is idle does so less often.
func (n *node) park(ctx context.Context, g transport.Gate, d time.Duration) transport.Wake {
	switch {
	case d != sweepEvery:
	case n.isQuick:
		d *= 4
	default:
		d *= 80
	}
	return n.world.park(ctx, g, d)
}

// tagOf is a hash of a key, as each is of one limit.
func tagOf(key string, _ *weir.Limit) uint64 {
	h := uint64(1469598103934665603)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h | 1
}

func (n *node) ticks() clock.Node {
	t := n.now - n.born - n.slept
	return clock.Node(1 + t + t*n.drift/1_000_000)
}

func (n *node) wallTime() clock.Store { return clock.Store(epoch + n.now + n.wall) }

// localTime is that of the node's own store.
func (n *node) localTime() int64 { return epoch + n.now }

// isSound reports whether a server has answered in time for long enough that a node which
// was not late itself has closed its breaker.
func (n *node) isSound(s *server) bool {
	if lost := n.clock.LostTime(); lost != n.lost { // its time went on at once, also that of its budgets
		n.lost, n.excused = lost, max(n.excused, n.now+1_000_000)
	}
	return n.now > s.faulty+3_000_000 && n.now > n.excused
}

// evict has what may leave the table leave it, for an entry that is too large.
func (n *node) evict() {
	for _, l := range n.limits {
		tag, g, _ := n.store.table.LockEntry(l.Name, l)
		g.AddEntry(tag+1<<32, "large", l, MinBytes, n.clock.Now())
		g.Unlock()
	}
}

// slack returns what the node may still overshoot a limit by.
func (n *node) slack(l *weir.Limit) int64 {
	if n.store == nil || n.stands || n.crashed {
		return 0
	}
	_, g, e := n.store.table.LockEntry(l.Name, l)
	defer g.Unlock()
	now := n.ticks() + clock.Node(n.clock.LostTime()) // the node itself does not look at its clock
	if e == nil || len(e.Lots()) == 0 || e.Lots()[0].Limit.ID() == l.ID() || now >= e.Lots()[0].Expiry {
		return 0
	}
	return e.Lots()[0].Fetched
}

// lookAtSlack looks whether all nodes together may overshoot a limit by no more than it may
// be (I9).
func (f *fleet) lookAtSlack(l *weir.Limit) {
	sum := int64(0)
	for _, n := range f.nodes {
		sum += n.slack(l)
	}
	if sum > l.Overshoot() && f.now >= f.truths[atTally].forgivenUntil {
		f.fail("%s: the nodes have %d of a slack of %d", l.Name, sum, l.Overshoot())
	}
}

// partsOf is among how many nodes a limit is divided at least while the server is out.
func (f *fleet) partsOf(l *weir.Limit) int64 {
	if l.Consistency.OnStoreError == params.OnErrorLastKnown {
		return 1
	}
	return int64(f.leastNodes)
}

// close closes what the node has opened.
func (n *node) close() {
	err := n.store.Close()
	if n.region != nil {
		err = errors.Join(err, n.region.Close())
	}
	if err != nil {
		n.fail("node %d: %v", n.index, err)
	}
}

// checkClocks looks whether nodes take time for lost for which nothing stood still: of
// drifting clocks a second is.
func (f *fleet) checkClocks() {
	for _, n := range f.nodes {
		if lost := n.clock.LostTime() - n.slept; lost > 1_000_000 && f.layout != ring && !f.isSet && !f.failsOver {
			f.fail("node %d takes %d microseconds for lost in which its clock ran", n.index, lost)
		}
	}
}
