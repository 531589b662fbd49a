package shared

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/transport"
)

// maxNodes is how many nodes one store can know.
const maxNodes = 10_000

// Nodes is the register of the nodes that share the store, which keeps it itself as
// permits of a concurrency limit: a node that no longer renews its own is gone.
type nodes struct {
	register *weir.Limit
	id       int64
	least    int64
	known    atomic.Int64
	// counter is looked at instead of the register where the store only counts, as
	// countsOnly says; then the nodes are those that are configured.
	counter    *weir.Limit
	countsOnly atomic.Bool
	asked      atomic.Bool // and answered once
}

func newNodes(opt *Options, rand func() uint64) (*nodes, error) {
	n := &nodes{
		id: int64(rand()>>1 | 1), least: int64(max(opt.Nodes, 1)),
		register: &weir.Limit{Name: "nodes", Scope: "\x1fnodes", Algorithm: algorithm.Concurrency, Count: maxNodes, Period: opt.NodeTTL},
		counter:  &weir.Limit{Name: "probe", Scope: "\x1fprobe", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Hour},
	}
	n.known.Store(n.least)
	return n, errors.Join(n.counter.Compile(), n.register.Compile())
}

// count returns how many nodes there are, as far as this one knows.
func (n *nodes) count() int64 { return n.known.Load() }

// renewRegistration registers the node for another ttl by ask, and learns how many nodes there are. A
// store that only counts, such as Memcached, has no register and is looked at, to see
// whether it answers.
func (n *nodes) renewRegistration(ask func([]weir.Op) error) error {
	if n.countsOnly.Load() {
		return n.lookAtStore(ask)
	}
	ops := []weir.Op{{Key: "nodes", Limit: n.register, Cost: 1, ID: n.id}}
	if err := ask(ops); err != nil {
		// A call that was only lost says nothing of what the store can keep.
		if r, ok := errors.AsType[*transport.Result](err); !ok || r.Outcome != transport.Rejected || n.asked.Load() {
			return err
		}
		if err := n.lookAtStore(ask); err != nil {
			return err // what was rejected was answered
		}
		n.countsOnly.Store(true)
		return nil
	}
	n.known.Store(max(maxNodes-ops[0].Decision.Remaining, n.least))
	n.asked.Store(true)
	return nil
}

func (n *nodes) lookAtStore(ask func([]weir.Op) error) error {
	return ask([]weir.Op{{Key: "nodes", Limit: n.counter, Cost: 1, Verb: weir.Peek}})
}

// endRegistration ends the node's registration by ask.
func (n *nodes) endRegistration(ask func([]weir.Op) error) error {
	if n.countsOnly.Load() {
		return nil
	}
	return ask([]weir.Op{{Key: "nodes", Limit: n.register, Cost: 1, ID: n.id, Role: weir.Always, Verb: weir.Refund}})
}
