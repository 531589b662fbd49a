package shared

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A driver carries a node's calls to the server, each of which may get lost or be late. It
// is what a node is given as the shared store.
type driver struct {
	weir.Store
	*server
	node *node
}

// Driver implements transport.Driven.
func (d *driver) Driver() (transport.Driver, transport.Tuning) {
	return d, transport.Tuning{Workers: 8, Waiting: 1000, Opened: d.node.opened, Closed: func(int) { d.event("closed", d.node.index) }}
}

func (d *driver) Shards() int { return 1 }

func (d *driver) Shard(string) int { return 0 }

func (d *driver) Send(_ int, calls []*transport.Call) {
	for _, c := range calls {
		c.Finish(d.call(c))
	}
}

func (d *driver) Probe(int, time.Duration) error {
	d.sleep(d.quick())
	if d.isDown() {
		d.faulty = d.now
		return errReset
	}
	return nil
}

func (d *driver) isDown() bool { return d.now < d.downUntil || d.now < d.node.cutOff }

// call carries out a call, and returns how it ended. What is late is carried out all the
// same, later.
func (d *driver) call(c *transport.Call) *transport.Result {
	f, start, within := &d.troubles, d.now, c.Within.Microseconds()
	there, back := d.quick(), d.quick()
	if d.oneOf(f.slowCall) {
		there += d.Int64N(f.slow)
	}
	if d.oneOf(f.slowAnswer) {
		back += d.Int64N(f.slow)
	}
	d.event("call", d.node.index, there, back)
	if there+back > budget {
		d.faulty = start + budget
	}
	if d.isDown() || d.oneOf(f.loseCall) {
		d.sleep(there)
		d.faulty = d.now
		d.event("lose call")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	ops, isForeground := c.Ops, within <= budget
	if there >= within {
		ops = cloneOps(ops)
	}
	if d.isPush(ops, isForeground) && d.oneOf(f.repeat) {
		again := cloneOps(ops)
		d.at(start+there+d.Int64N(10_000_000), func() {
			if !d.isDown() {
				d.event("repeat", d.node.index)
				d.take(again)
				d.node.served(again, isForeground)
			}
		})
	}
	d.at(start+there, func() {
		d.take(ops)
		d.node.served(ops, isForeground)
	})
	if there+back >= within {
		d.sleep(within)
		return &transport.Result{Outcome: transport.Late, MayRun: true, Err: transport.ErrLate}
	}
	d.sleep(there + back)
	if d.oneOf(f.loseAnswer) || d.isDown() {
		d.faulty = d.now
		d.event("lose answer")
		return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: errReset}
	}
	return nil
}

// served notes what the server has carried out for a node: what it decided for clients,
// and debts that were paid.
func (n *node) served(ops []weir.Op, isForeground bool) {
	if n.isPush(ops, isForeground) {
		n.pushed(&ops[len(ops)-1])
		return
	}
	for i := range ops {
		o := &ops[i]
		at := n.limitOf(o.Limit.ID())
		switch {
		case at < 0 || o.Limit.Traits()&weir.Leases != 0 || !o.Charged:
		case isForeground && o.Verb == weir.Spend && (o.Role == weir.Enforce || o.Role == weir.Always) && o.Decision.Allowed():
			n.truths[at].admit(o.Now, o.Cost)
			if at == atTally {
				n.decide(o.Now)
			}
		case !isForeground && o.Verb == weir.Force && len(ops) == 1:
			n.shares[at].refund(n.localTime(), o.Cost, 0)
		}
	}
}
