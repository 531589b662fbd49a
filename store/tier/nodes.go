package tier

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/transport"
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
	// counter is asked instead of the register where the store keeps counts only;
	// plain is that it does.
	counter *weir.Limit
	plain   atomic.Bool
	// changed is when their number last did, or may have while this node could not
	// hear of it, in the node's time, 0 before the store was ever asked, and settled
	// how long after all nodes know. renewed is when the node's own lease was renewed,
	// which lasts for ttl.
	changed, renewed atomic.Int64
	settled, ttl     int64
	link             *link
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
		ttl:     opt.NodeTTL.Microseconds(),
		link:    k,
		limit: &weir.Limit{
			Name: "nodes", Scope: "\x1fnodes", Algorithm: algorithm.Concurrency, Count: maxNodes, Period: opt.NodeTTL,
		},
	}
	n.counter = &weir.Limit{Name: "probe", Scope: "\x1fprobe", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Hour}
	if err := n.counter.Compile(); err != nil {
		return nil, err
	}
	n.known.Store(n.least)
	return n, n.limit.Compile()
}

// name names this node in the shared store. It is another after a restart.
func (n *nodes) name() string { return strconv.FormatInt(n.id, 36) }

// count returns how many nodes there are, as far as this one knows.
func (n *nodes) count() int64 { return n.known.Load() }

func (n *nodes) op(v weir.Verb) []weir.Op {
	o := weir.Op{Key: "nodes", Limit: n.limit, Cost: 1, ID: n.id, Verb: v}
	if v == weir.Refund {
		o.Role = weir.Always
	}
	return []weir.Op{o}
}

// renew tells the store that the node is there, and learns how many are. A store
// that can only count, such as Memcached, has no register: it is looked at, and
// the nodes are those that are configured.
func (s *Store) renew(ask func([]weir.Op) error) error {
	n := s.nodes
	if n.plain.Load() {
		return n.lookAt(n.counter, ask)
	}
	ops, sent := n.op(weir.Spend), s.link.now()
	err := ask(ops)
	if err != nil {
		n.missed()
		if errors.Is(err, transport.ErrLate) || n.changed.Load() != 0 || n.lookAt(n.counter, ask) != nil {
			return err
		}
		n.plain.Store(true)
		s.plans.all.Clear()
		s.log.Info("shared store keeps no register of nodes; the configured number is used", "nodes", n.least, "err", err)
		return nil
	}
	s.heard(ops[0].Now, sent)
	// A node that was held up may have been forgotten meanwhile. steady hears of the
	// change before it hears of the renewal.
	now := s.link.now()
	late := now-n.renewed.Load() >= n.ttl
	count := max(maxNodes-ops[0].Decision.Remaining, n.least)
	if n.known.Swap(count) != count || n.changed.Load() == 0 || late {
		n.changed.Store(max(now, 1))
	}
	n.renewed.Store(sent)
	return nil
}

// lookAt asks a store about a limit, to see whether it answers.
func (n *nodes) lookAt(l *weir.Limit, ask func([]weir.Op) error) error {
	return ask([]weir.Op{{Key: "nodes", Limit: l, Cost: 1, Verb: weir.Peek}})
}

// missed notes that the number of nodes may have changed unheard: others may have
// counted without this one, and hold more than they would have.
func (n *nodes) missed() {
	if n.changed.Load() != 0 {
		n.changed.Store(max(n.link.ticked()+n.link.slept.Load(), 1))
	}
}

// steady reports whether all nodes have known for a while how many they are, so
// that no lease of ttl microseconds is left from when they were fewer.
func (n *nodes) steady(ttl int64) bool {
	renewed := n.renewed.Load() // before changed, which is written first
	changed, now := n.changed.Load(), n.link.now()
	return changed > 0 && now-changed > n.settled+ttl && (now-renewed < n.ttl || n.plain.Load())
}

// leave tells the store that the node is no longer there.
func (n *nodes) leave(k *link) error {
	if n.plain.Load() {
		return nil
	}
	_, err := k.take(context.Background(), n.op(weir.Refund))
	return err
}

// renewEvery is how often a node renews its lease.
func renewEvery(ttl time.Duration) time.Duration { return ttl / 3 }
