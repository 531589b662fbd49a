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
	reached []*server // one for each shard
	link    *link     // to another region, nil: they are near
	queue   *transport.Queue
}

// Driver implements transport.Driven.
func (d *driver) Driver() (transport.Driver, transport.Tuning) {
	t := transport.Tuning{Workers: 8, Waiting: 1000, Opened: d.opened, Closed: func(shard int) { d.event("closed", d.index, int64(shard)) }}
	if len(d.reached) == 1 {
		return d, t
	}
	t.RunsOnly, t.Bind = true, func(q *transport.Queue) { d.queue = q }
	return divider{d}, t
}

func (d *driver) Shards() int { return len(d.reached) }

// Shard implements transport.Driver: of a ring the keys of a server that is lost move.
func (d *driver) Shard(key string) int {
	switch {
	case len(d.reached) == 1:
		return 0
	case d.layout != ring:
		return d.ownerOf(key, func(int) bool { return true })
	}
	return d.ownerOf(key, func(server int) bool { return !d.queue.IsShardOpen(server) })
}

func (d *driver) Send(shard int, calls []*transport.Call) {
	for _, c := range calls {
		c.Finish(d.call(d.reached[shard], c))
	}
}

func (d *driver) Probe(shard int, within time.Duration) error {
	s := d.reached[shard]
	there, back := d.delays(s)
	d.sleep(min(there+back, within.Microseconds()))
	if d.isDown(s) || there+back > within.Microseconds()/4 { // of which a call takes the rest
		d.blame(s, d.now)
	}
	if d.isDown(s) || there+back >= within.Microseconds() {
		return errReset
	}
	return nil
}

// blame notes until when a server was late, or had no answer: not the link to it.
func (d *driver) blame(s *server, until int64) {
	if d.link == nil {
		s.faulty = max(s.faulty, until)
	}
}

// delays are how long a call takes there and back.
func (d *driver) delays(s *server) (there, back int64) {
	if there, back = s.delays(); d.link != nil {
		there, back = there+d.link.delay(), back+d.link.delay()
	}
	return there, back
}

// opened notes that the breaker of a server has opened: only by what that did (I5).
func (d *driver) opened(shard int, err error) {
	d.event("opened", d.index, int64(shard))
	if s := d.reached[shard]; d.link == nil && d.isSound(s) {
		d.fail("the breaker of node %d opened, though server %d has answered in time: %v", d.index, s.index, err)
	}
}

func (d *driver) isDown(s *server) bool {
	if d.link != nil && d.now < d.link.cutUntil {
		return true
	}
	return d.now < s.downUntil || d.now < d.cutOff && (d.cutFrom < 0 || d.cutFrom == s.index)
}

// call carries out a call, and returns how it ended. What is late is carried out all the
// same, later.
func (d *driver) call(s *server, c *transport.Call) *transport.Result {
	start, within := d.now, c.Within.Microseconds()
	there, back := d.delays(s)
	d.event("call", d.index, int64(s.index), there, back)
	ops, a := c.Ops, requestOf(c)
	isProbe := a == nil && within == budget
	switch {
	case there+back > budget, there+back > budget/4 && (d.layout == regions || isProbe): // they make several calls
		d.blame(s, start+budget)
	case there+back > budget/4:
		s.slow = start + there + back
	}
	if d.isPinnedElsewhere(s, ops) {
		return &transport.Result{Outcome: transport.Rejected, Err: errMoved}
	}
	if d.isDown(s) || d.oneOf(d.troubles.loseCall) {
		d.event("lose call")
		d.sleep(min(there, within))
		d.blame(s, d.now)
		if there >= within {
			return a.unheard(transport.Late, transport.ErrLate)
		}
		return a.unheard(transport.Failed, errReset)
	}
	if there >= within {
		ops = cloneOps(ops)
	}
	if a == nil && d.isPush(ops) && d.oneOf(d.troubles.repeat) {
		again := cloneOps(ops)
		d.at(start+there+d.Int64N(10_000_000), func() {
			if !d.isDown(s) {
				d.event("repeat", d.index)
				s.take(again)
				d.served(s, again, nil)
			}
		})
	}
	d.at(start+there, d.deliver(s, ops, a))
	if there+back >= within {
		d.sleep(within)
		return a.unheard(transport.Late, transport.ErrLate)
	}
	d.sleep(there + back)
	if d.oneOf(d.troubles.loseAnswer) || d.isDown(s) {
		d.blame(s, d.now)
		d.event("lose answer")
		return a.unheard(transport.Failed, errReset)
	}
	return nil
}

// A delivery is a call on its way to a server.
type delivery struct {
	d      *driver
	s      *server
	ops    []weir.Op
	a      *asking
	arrive func() // arrived, which each call would allocate anew
}

// deliver returns what happens when a call arrives.
func (d *driver) deliver(s *server, ops []weir.Op, a *asking) func() {
	var x *delivery
	if last := len(d.deliveries) - 1; last >= 0 {
		x, d.deliveries = d.deliveries[last], d.deliveries[:last]
	} else {
		x = &delivery{}
		x.arrive = x.arrived
	}
	x.d, x.s, x.ops, x.a = d, s, ops, a
	return x.arrive
}

func (x *delivery) arrived() {
	d, s, ops, a := x.d, x.s, x.ops, x.a
	d.deliveries = append(d.deliveries, x)
	s.take(ops)
	d.served(s, ops, a)
}

// served notes what a server has carried out for a node: what it decided for the request of
// a client, and debts that were paid.
func (d *driver) served(s *server, ops []weir.Op, a *asking) {
	n, isForeground := d.node, a != nil
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
			if n.layout == regions && len(ops) == 3 && a.charged[at] == o.Cost {
				n.combined++ // a region sends the spends of one key that came together one after the other
			}
			if i == 0 || ops[0].Role != weir.Always {
				a.charge(at, o.Cost)
			}
			n.truths[at].admit(n.homeAt(at).timeOf(s, o.Now), o.Cost)
		case isUndo(o) && (isForeground || n.isStrict(at)): // in the background one whose call was lost is made again; of leased limits what nodes hold comes back like that
			a.charge(at, -o.Cost)
			n.truths[at].refund(n.homeAt(at).time(), o.Cost, o.ID)
		case !isForeground && o.Verb == weir.Force && d.link == nil:
			n.shares[at].refund(n.localTime(), o.Cost, 0)
		}
	}
}
