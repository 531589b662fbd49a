package tier

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// maxNodes is how many nodes one store can know.
const maxNodes = 10_000

// nodes is the register of the nodes that share the store. It is kept in the
// store itself, as leases of a concurrency limit: a node that no longer renews
// its own has gone.
type nodes struct {
	limit *weir.Limit
	id    int64
	least int64
	known atomic.Int64
	// changed is when their number last did, in the node's time, and settled how
	// long after all nodes know.
	changed atomic.Int64
	settled int64
	link    *link
}

func newNodes(opt *Options, k *link) (*nodes, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	n := &nodes{
		id:    int64(binary.LittleEndian.Uint64(b[:])>>1 | 1),
		least: int64(max(opt.Nodes, 1)),
		// A node renews within the ttl or is gone; then its leases run out.
		settled: (opt.NodeTTL + time.Second).Microseconds(),
		link:    k,
		limit: &weir.Limit{
			Name: "nodes", Scope: "\x1fnodes", Algorithm: algorithm.Concurrency, Count: maxNodes, Period: opt.NodeTTL,
		},
	}
	n.known.Store(n.least)
	n.changed.Store(k.now())
	return n, n.limit.Compile()
}

// count returns how many nodes there are, as far as this one knows.
func (n *nodes) count() int64 { return n.known.Load() }

func (n *nodes) op(v weir.Verb) []weir.Op {
	o := weir.Op{Key: "nodes", Limit: n.limit, Cost: 1, ID: n.id, Verb: v}
	if v == weir.Refund {
		o.Role = weir.Always
	}
	return []weir.Op{o}
}

// renew tells the store that the node is there, and learns how many are.
func (s *Store) renew() error {
	n, ops := s.nodes, s.nodes.op(weir.Spend)
	sent, err := s.link.probe(ops)
	if err != nil {
		return err
	}
	s.heard(ops[0].Now, sent)
	count := max(maxNodes-ops[0].Decision.Remaining, n.least)
	if n.known.Swap(count) != count {
		n.changed.Store(s.link.now())
	}
	return nil
}

// steady reports whether all nodes have known for a while how many they are, so
// that no lease of ttl microseconds is left from when they were fewer.
func (n *nodes) steady(ttl int64) bool { return n.link.now()-n.changed.Load() > n.settled+ttl }

// leave tells the store that the node is no longer there.
func (n *nodes) leave(k *link) error {
	_, err := k.take(context.Background(), n.op(weir.Refund))
	return err
}

// renewEvery is how often a node renews its lease.
func renewEvery(ttl time.Duration) time.Duration { return ttl / 3 }
