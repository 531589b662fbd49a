package shared

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// maxNodes is how many nodes one store can know.
const maxNodes = 10_000

// Nodes is the register of the nodes that share the store, which keeps it itself as
// permits of a concurrency limit: a node that no longer renews its own is gone.
//
// The burst of a bucket is used whole only while no node can hold units of it. A node
// knows that of an uninterrupted view: the count has been the same for so long that every
// lot has ended which was fetched while it was another. Whatever interrupts the view makes
// it begin anew: another count, a renewal that failed or came after the node's own
// registration had ended, lost time, a breaker that closed.
type nodes struct {
	clock    *clock.Clock
	register *weir.Limit
	id       int64
	least    int64
	known    atomic.Int64
	// counter is looked at instead of the register where the store only counts, as
	// countsOnly says; then the nodes are those that are configured.
	counter    *weir.Limit
	countsOnly atomic.Bool
	// changed is when the view began, 0 before the store was ever asked, and lost how much
	// time was lost by then. renewed is when the node's own registration was renewed, which
	// lives for ttl; settled is after how long all nodes know of a change.
	changed, renewed, lost atomic.Int64
	settled, ttl           int64
}

func newNodes(opt *Options, c *clock.Clock, rand func() uint64) (*nodes, error) {
	n := &nodes{
		clock: c, id: int64(rand()>>1 | 1), least: int64(max(opt.Nodes, 1)),
		settled: (opt.NodeTTL + time.Second).Microseconds(), ttl: opt.NodeTTL.Microseconds(),
		register: &weir.Limit{Name: "nodes", Scope: "\x1fnodes", Algorithm: algorithm.Concurrency, Count: maxNodes, Period: opt.NodeTTL},
		counter:  &weir.Limit{Name: "probe", Scope: "\x1fprobe", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Hour},
	}
	n.known.Store(n.least)
	return n, errors.Join(n.counter.Compile(), n.register.Compile())
}

// count returns how many nodes there are, as far as this one knows.
func (n *nodes) count() int64 { return n.known.Load() }

// renew registers the node for another ttl by ask, and learns how many nodes there are. A
// store that only counts, such as Memcached, has no register and is looked at, to see
// whether it answers.
func (n *nodes) renew(ask func([]weir.Op) error) error {
	if n.countsOnly.Load() {
		return n.lookAt(ask)
	}
	ops, sent := []weir.Op{{Key: "nodes", Limit: n.register, Cost: 1, ID: n.id}}, n.clock.Now()
	if err := ask(ops); err != nil {
		n.interrupt()
		// A call that was only lost says nothing of what the store can keep.
		if r, ok := errors.AsType[*transport.Result](err); !ok || r.Outcome != transport.Rejected || n.changed.Load() != 0 || n.lookAt(ask) != nil {
			return err
		}
		n.countsOnly.Store(true)
		return nil
	}
	// isSteady reads renewed before changed, so what a late renewal begins anew is written
	// before the renewal.
	now := n.clock.Now()
	count, late := max(maxNodes-ops[0].Decision.Remaining, n.least), int64(now)-n.renewed.Load() >= n.ttl
	if n.known.Swap(count) != count || n.changed.Load() == 0 || late {
		n.changed.Store(max(int64(now), 1))
	}
	n.renewed.Store(int64(sent))
	return nil
}

func (n *nodes) lookAt(ask func([]weir.Op) error) error {
	return ask([]weir.Op{{Key: "nodes", Limit: n.counter, Cost: 1, Verb: weir.Peek}})
}

// interrupt begins the view of the other nodes anew: they may have come and gone unseen.
func (n *nodes) interrupt() {
	if n.changed.Load() != 0 {
		n.changed.Store(max(int64(n.clock.Now()), 1))
	}
}

// isRegistered reports whether other nodes count this one.
func (n *nodes) isRegistered() bool {
	return int64(n.clock.Now())-n.renewed.Load() < n.ttl || n.countsOnly.Load()
}

// isSteady reports whether no lot of so many microseconds of life is left from when the
// count was another.
func (n *nodes) isSteady(life int64) bool {
	registered := n.isRegistered()
	if lost := n.clock.Lost(); n.lost.Swap(lost) != lost {
		n.interrupt()
	}
	changed := n.changed.Load()
	return registered && changed > 0 && int64(n.clock.Now())-changed > n.settled+life
}

// leave ends the node's registration by ask.
func (n *nodes) leave(ask func([]weir.Op) error) error {
	if n.countsOnly.Load() {
		return nil
	}
	return ask([]weir.Op{{Key: "nodes", Limit: n.register, Cost: 1, ID: n.id, Role: weir.Always, Verb: weir.Refund}})
}
