package shared

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A driver carries a node's calls to the servers, each of which may get lost or be late. It
// is what a node is given as the shared store.
type driver struct {
	weir.Store
	*node
	queue *transport.Queue
}

// Driver implements transport.Driven.
func (d *driver) Driver() (transport.Driver, transport.Tuning) {
	t := transport.Tuning{Workers: 8, Waiting: 1000, Opened: d.opened, Closed: func(shard int) { d.event("closed", d.index, int64(shard)) }}
	if len(d.servers) == 1 {
		return d, t
	}
	t.RunsOnly, t.Bind = true, func(q *transport.Queue) { d.queue = q }
	return divider{d}, t
}

func (d *driver) Shards() int { return len(d.servers) }

// Shard implements transport.Driver: of a ring the keys of a server that is lost move.
func (d *driver) Shard(key string) int {
	if d.layout != ring {
		return d.ownerOf(key, func(int) bool { return true })
	}
	return d.ownerOf(key, func(server int) bool { return !d.queue.IsShardOpen(server) })
}

func (d *driver) Send(shard int, calls []*transport.Call) {
	for _, c := range calls {
		c.Finish(d.call(d.servers[shard], c))
	}
}

func (d *driver) Probe(shard int, within time.Duration) error {
	s := d.servers[shard]
	there, back := s.delays()
	d.sleep(min(there+back, within.Microseconds()))
	if d.isDown(s) || there+back >= within.Microseconds() {
		s.faulty = d.now
		return errReset
	}
	return nil
}

func (d *driver) isDown(s *server) bool {
	return d.now < s.downUntil || d.now < d.cutOff && (d.cutFrom < 0 || d.cutFrom == s.index)
}

// call carries out a call, and returns how it ended. What is late is carried out all the
// same, later.
func (d *driver) call(s *server, c *transport.Call) *transport.Result {
	start, within := d.now, c.Within.Microseconds()
	there, back := s.delays()
	d.event("call", d.index, int64(s.index), there, back)
	switch {
	case there+back > budget:
		s.faulty = max(s.faulty, start+budget)
	case there+back > budget/4:
		s.slow = start + there + back
	}
	ops, isForeground := c.Ops, within <= budget
	a := requestOf(c, isForeground)
	if d.isPinnedElsewhere(s, ops) {
		return &transport.Result{Outcome: transport.Rejected, Err: errMoved}
	}
	if d.isDown(s) || d.oneOf(d.troubles.loseCall) {
		d.sleep(there)
		s.faulty = d.now
		d.event("lose call")
		return a.unheard(transport.Failed, errReset)
	}
	if there >= within {
		ops = cloneOps(ops)
	}
	if !isForeground && d.isPush(ops) && d.oneOf(d.troubles.repeat) {
		again := cloneOps(ops)
		d.at(start+there+d.Int64N(10_000_000), func() {
			if !d.isDown(s) {
				d.event("repeat", d.index)
				s.take(again)
				d.served(s, again, nil, isForeground)
			}
		})
	}
	d.at(start+there, func() {
		s.take(ops)
		d.served(s, ops, a, isForeground)
	})
	if there+back >= within {
		d.sleep(within)
		return a.unheard(transport.Late, transport.ErrLate)
	}
	d.sleep(there + back)
	if d.oneOf(d.troubles.loseAnswer) || d.isDown(s) {
		s.faulty = d.now
		d.event("lose answer")
		return a.unheard(transport.Failed, errReset)
	}
	return nil
}

// served notes what a server has carried out for a node: what it decided for the request of
// a client, and debts that were paid.
func (n *node) served(s *server, ops []weir.Op, a *asking, isForeground bool) {
	isPush := !isForeground && n.isPush(ops)
	if isPush {
		n.pushed(s, &ops[len(ops)-1])
	}
	if isForeground && len(ops) > 1 && ops[0].Role == weir.Always && ops[0].Verb == weir.Spend {
		n.combined++ // of which requests the others are is not known
	}
	for i := range ops {
		o := &ops[i]
		at := n.limitOf(o.Limit.ID())
		if o.Charged {
			n.servedElsewhere(s, o)
		}
		switch {
		case at < 0 || o.Limit.Traits()&weir.Leases != 0 || !o.Charged || isPush:
		case isForeground && o.Verb == weir.Spend && o.Role <= weir.Always && o.Decision.Allowed():
			if i == 0 || ops[0].Role != weir.Always {
				a.charge(at, o.Cost)
			}
			n.truths[at].admit(n.homes[at].timeOf(s, o.Now), o.Cost)
		case isForeground && isUndo(o):
			a.charge(at, -o.Cost)
			n.truths[at].refund(n.homes[at].time(), o.Cost, o.ID)
		case !isForeground && o.Verb == weir.Force && len(ops) == 1:
			n.shares[at].refund(n.localTime(), o.Cost, 0)
		}
	}
}
